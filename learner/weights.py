"""Published weights: Hugging Face folders named by their digest, the newest few of them kept."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from learner.claim import Check
from spade.disk import discard, discard_unless_held
from spade.policy.manifest import PARAMETERS
from spade.policy.model import publish as publish_folder

# An engine has the time of this many further publications to load a version.
KEPT = 4


def publish(model: Any, dtype: str, tokenizer: Path, root: Path) -> tuple[str, Path]:
    """Write the parameters in `dtype` ("float32" or "bfloat16") to `root`/<digest>; returns (digest, folder).

    tokenizer: the folder whose tokenizer files go along. The same parameters again give the same folder, as the newest.
    """
    published = model if dtype == "float32" else _cast(model, getattr(torch, dtype))
    digest, folder = publish_folder(published, tokenizer, root, trained=model)
    os.utime(folder)
    return digest, folder


def spare(root: Path, needed: frozenset[str]) -> list[str]:
    """The digests of published weights, the oldest first, but for the newest `KEPT` and those that are `needed`."""
    folders = sorted((path for path in root.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime_ns)
    whole = [path.name for path in folders if not path.name.startswith(".")]
    return [digest for digest in whole[:-KEPT] if digest not in needed]


def prune(root: Path, retired: Iterable[str], check: Check) -> None:
    """Delete half-written folders of a crash, and those of `retired` weights, which no engine holds.

    Those that a reader on this host holds stay: a command, or the service of this learner for another host.
    """
    for path in [path for path in root.iterdir() if path.is_dir() and path.name.startswith(".")]:
        check()  # after they were listed, so that nothing is deleted that a newer life has written
        discard(path)
    for digest in retired:
        check()
        discard_unless_held(root / digest, PARAMETERS)


@torch.no_grad()
def _cast(model: Any, dtype: torch.dtype) -> Any:
    """A copy of the parameters in `dtype`, without gradients or a second copy in float32."""
    with torch.device("meta"):
        copy = type(model)(model.config)
    copy.load_state_dict({name: value.to(dtype) for name, value in model.state_dict().items()}, assign=True)
    copy.tie_weights()
    copy.generation_config = model.generation_config
    return copy
