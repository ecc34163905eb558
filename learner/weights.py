"""Write and delete published weights: Hugging Face folders named by their digest. The newest few are kept."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from learner.claim import Check
from spade.disk import discard, discard_unless_held
from spade.policy.manifest import PARAMETERS
from spade.policy.model import publish as publish_folder

# An engine must load a version before this many newer versions are published.
KEPT = 4


def publish(model: Any, dtype: str, tokenizer: Path, root: Path) -> tuple[str, Path]:
    """Write the parameters in `dtype` ("float32" or "bfloat16") to `root`/<digest>. Returns (digest, folder).

    Copies the tokenizer files of the folder `tokenizer`. The same parameters give the same folder, marked as newest.
    Deletes the model's gradients, which nobody needs any more, to make room for the copy.
    """
    model.zero_grad()
    published = model if dtype == "float32" else _cast(model, getattr(torch, dtype))
    digest, folder = publish_folder(published, tokenizer, root, trained=model)
    os.utime(folder)
    return digest, folder


def list_spare(root: Path, needed: frozenset[str]) -> list[str]:
    """List the digests of published weights, oldest first, without the newest `KEPT` and the `needed` ones."""
    folders = sorted((path for path in root.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime_ns)
    whole = [path.name for path in folders if not path.name.startswith(".")]
    return [digest for digest in whole[:-KEPT] if digest not in needed]


def prune(root: Path, retired: Iterable[str], check: Check) -> None:
    """Delete half-written folders of a crash, and the folders of `retired` weights, which engines no longer use.

    A folder stays while a reader on this host holds it: a command, or this learner's service for another host.
    """
    for path in [path for path in root.iterdir() if path.is_dir() and path.name.startswith(".")]:
        check()  # check after listing, so that the files of a newer process are never deleted
        discard(path)
    for digest in retired:
        check()
        discard_unless_held(root / digest, PARAMETERS)


@torch.no_grad()
def _cast(model: Any, dtype: torch.dtype) -> Any:
    """Copy the model's parameters in `dtype`, without gradients or a second copy in float32."""
    with torch.device("meta"):
        copy = type(model)(model.config)
    copy.load_state_dict({name: value.to(dtype) for name, value in model.state_dict().items()}, assign=True)
    copy.tie_weights()
    copy.generation_config = model.generation_config
    return copy
