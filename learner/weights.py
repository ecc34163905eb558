"""Copy, write and delete published weights: Hugging Face folders named by their digest. The newest few are kept."""

import copy
import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from learner.claim import Check
from spade.disk import DRAFT, discard, discard_unless_held
from spade.policy import canary
from spade.policy.manifest import PARAMETERS
from spade.policy.model import publish as publish_folder

# An engine must load a version before this many newer versions are published.
KEPT = 4


class PolicyCopy:
    """A copy of a policy in the CPU's memory, which no step changes. The same memory serves all copies of a learner."""

    def __init__(self, model: Any, dtype: str) -> None:
        """Make room for the parameters of `model` in `dtype`, "float32" or "bfloat16"."""
        with torch.device("meta"):
            made = type(model)(copy.deepcopy(model.config))  # saving writes the dtype into this copy
        made.to(getattr(torch, dtype)).to_empty(device="cpu").tie_weights()
        made.generation_config = model.generation_config
        made._weight_conversions = getattr(model, "_weight_conversions", None)  # the names of its tensors in files
        self._model = made

    @torch.no_grad()
    def take(self, model: Any) -> None:
        """Copy the parameters of `model`, and compute its canary in the learner's own arithmetic.

        Deletes the gradients of the model, which nobody needs any more, to make room.
        """
        model.zero_grad()
        room = dict(_list_tensors(self._model))
        for name, value in _list_tensors(model):
            room[name].copy_(value)
        self._expected = canary.compute(model)

    def write(self, tokenizer: Path, root: Path) -> tuple[str, Path]:
        """Write the copy to `root`/<digest>. Returns (digest, folder).

        Copies the tokenizer files of the folder `tokenizer`. The same parameters give the same folder, marked as
        newest.
        """
        digest, folder = publish_folder(self._model, tokenizer, root, self._expected)
        os.utime(folder)
        return digest, folder


def _list_tensors(model: Any) -> Iterator[tuple[str, Any]]:
    """Return parameters and buffers by name. Tied tensors have one name."""
    return chain(model.named_parameters(), model.named_buffers())


def publish(model: Any, dtype: str, tokenizer: Path, root: Path) -> tuple[str, Path]:
    """Copy and write the policy of `model`, once. See `PolicyCopy`."""
    made = PolicyCopy(model, dtype)
    made.take(model)
    return made.write(tokenizer, root)


def list_spare(root: Path, needed: frozenset[str]) -> list[str]:
    """List the digests of published weights, oldest first, without the newest `KEPT` and the `needed` ones."""
    folders = sorted((path for path in root.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime_ns)
    whole = [path.name for path in folders if not path.name.startswith(".")]
    return [digest for digest in whole[:-KEPT] if digest not in needed]


def prune(root: Path, retired: Iterable[str], check: Check) -> None:
    """Delete half-written folders that a crash left, and the folders of `retired` weights, which engines no longer use.

    A folder stays while a reader on this host holds it: a command, or this learner's service for another host.
    """
    for path in list(root.glob(f"{DRAFT}*")):
        check()  # check after listing, so that the files of a newer process are never deleted
        discard(path)
    for digest in retired:
        check()
        discard_unless_held(root / digest, PARAMETERS)
