"""Copy, write and delete published weights: Hugging Face folders named by their digest. The newest few are kept."""

import copy
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from learner.claim import Check
from spade.disk import discard, discard_unless_held
from spade.policy import canary
from spade.policy.manifest import PARAMETERS
from spade.policy.model import publish as publish_folder

# An engine must load a version before this many newer versions are published.
KEPT = 4


class Policy(NamedTuple):
    """A copy of a policy in the CPU's memory. No step changes it."""

    model: Any
    """The Hugging Face model in the number format of the publication."""

    expected: canary.Canary
    """The canary of the trained model, in the learner's own arithmetic."""


@torch.no_grad()
def copy_policy(model: Any, dtype: str) -> Policy:
    """Copy the parameters in `dtype` ("float32" or "bfloat16").

    The model loses its gradients, which nobody needs any more, so that the copy finds room.
    """
    model.zero_grad()
    with torch.device("meta"):
        made = type(model)(copy.deepcopy(model.config))  # saving writes the dtype into the configuration
    tensors = model.state_dict(keep_vars=True)  # tied names share a tensor, which is copied once
    copies = {key: _copy_tensor(one, dtype) for key, one in {id(one): one for one in tensors.values()}.items()}
    made.load_state_dict({name: copies[id(one)] for name, one in tensors.items()}, assign=True)
    made.tie_weights()
    made.generation_config = model.generation_config
    made._weight_conversions = getattr(model, "_weight_conversions", None)  # the names of its tensors in files
    return Policy(made, canary.compute(model))


def write(policy: Policy, tokenizer: Path, root: Path) -> tuple[str, Path]:
    """Write the copy of a policy to `root`/<digest>. Returns (digest, folder).

    Copies the tokenizer files of the folder `tokenizer`. The same parameters give the same folder, marked as newest.
    """
    digest, folder = publish_folder(policy.model, tokenizer, root, policy.expected)
    os.utime(folder)
    return digest, folder


def publish(model: Any, dtype: str, tokenizer: Path, root: Path) -> tuple[str, Path]:
    """Copy and write the policy of `model`. See `copy_policy` and `write`."""
    return write(copy_policy(model, dtype), tokenizer, root)


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


def _copy_tensor(tensor: Any, dtype: str) -> Any:
    kind = getattr(torch, dtype) if tensor.is_floating_point() else tensor.dtype
    return tensor.detach().to("cpu", kind, copy=True)
