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

# The folders of this many newest weights are kept. An engine must load weights before this many newer ones come.
KEPT = 4


class PolicyCopy:
    """A copy of the policy in the CPU's memory. Learner steps do not change it, and each `take` overwrites it."""

    def __init__(self, model: Any, dtype: str) -> None:
        """Allocate memory for the parameters of `model` in `dtype`, "float32" or "bfloat16"."""
        with torch.device("meta"):
            made = type(model)(copy.deepcopy(model.config))  # saving writes the dtype into this copy
        made.to(getattr(torch, dtype)).to_empty(device="cpu").tie_weights()
        made.generation_config = model.generation_config
        made._weight_conversions = getattr(model, "_weight_conversions", None)  # the names of its tensors in files
        self._model = made

    @torch.no_grad()
    def take(self, model: Any) -> None:
        """Copy the parameters of `model`, and compute the canary in the learner's own arithmetic.

        First deletes the gradients of the model to free memory. They are not needed any more.
        """
        model.zero_grad()
        room = dict(_list_tensors(self._model))
        for name, value in _list_tensors(model):
            room[name].copy_(value)
        self._expected = canary.compute(model)

    def write(self, tokenizer: Path, root: Path) -> tuple[str, Path]:
        """Write the copy to `root`/<digest>. Returns (digest, folder).

        Also copies the tokenizer files of the folder `tokenizer`. If these parameters were written before, the folder
        exists and only becomes the newest.
        """
        digest, folder = publish_folder(self._model, tokenizer, root, self._expected)
        os.utime(folder)
        return digest, folder


def _list_tensors(model: Any) -> Iterator[tuple[str, Any]]:
    """Return parameters and buffers with their names. Tied tensors occur once."""
    return chain(model.named_parameters(), model.named_buffers())


def publish(model: Any, dtype: str, tokenizer: Path, root: Path) -> tuple[str, Path]:
    """Copy and write the policy of `model` without keeping the copy. See `PolicyCopy.write`."""
    made = PolicyCopy(model, dtype)
    made.take(model)
    return made.write(tokenizer, root)


def list_spare(root: Path, needed: frozenset[str]) -> list[str]:
    """Return the digests of all published weights but the newest `KEPT` and the `needed` ones, oldest first."""
    folders = sorted((path for path in root.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime_ns)
    whole = [path.name for path in folders if not path.name.startswith(".")]
    return [digest for digest in whole[:-KEPT] if digest not in needed]


def prune(root: Path, retired: Iterable[str], check: Check) -> None:
    """Delete half-written folders that a crash left, and the folders of `retired` weights, which engines no longer use.

    A folder stays while a reader on this host holds it: a command, or this learner's service for another host.
    """
    for path in list(root.glob(f"{DRAFT}*")):
        check()  # check after listing the files, so that the files of a newer process are never deleted
        discard(path)
    for digest in retired:
        check()
        discard_unless_held(root / digest, PARAMETERS)
