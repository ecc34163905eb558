"""Checkpoint folders in the Hugging Face layout: load one, publish one under the digest of its parameters."""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging as transformers_logging

from spade.errors import ConfigError, RunError

PARAMETERS = "model.safetensors"
# What a tokenizer needs, by the names that Hugging Face gives these files; a checkpoint has some of them.
TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
    "vocab.json", "merges.txt", "tokenizer.model", "generation_config.json",
)  # fmt: skip
_WHOLE = "1000TB"  # one file, however large: the digest names all parameters

transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]


def pick_device(name: str) -> torch.device:
    """The device called `name`; "auto" is the GPU if there is one, else the CPU. Raises ConfigError."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"no device {name!r}; use 'auto', 'cpu', 'cuda' or 'cuda:N'") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device {name!r}: torch sees no GPU here; use 'auto' or 'cpu'")
    return device


def load(folder: Path, *, dtype: str, device: torch.device, digest: str | None = None) -> PreTrainedModel:
    """The causal language model of `folder` in evaluation mode; with `digest`, its parameters are checked first.

    dtype: "float32" or "bfloat16". Raises RunError where the folder does not hold what it should.
    """
    if digest is not None and parameters_digest(folder) != digest:
        raise RunError(f"{folder / PARAMETERS}: its digest is not {digest}; it was changed or cut short")
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype), local_files_only=True)
    except (OSError, ValueError) as error:
        raise RunError(f"{folder}: cannot load a causal language model: {str(error).splitlines()[0]}") from None
    loaded: PreTrainedModel = model.to(device).eval()
    return loaded


def parameters_digest(folder: Path) -> str:
    """blake2b-128 of model.safetensors, in hex. Raises RunError where it cannot be read."""
    try:
        with (folder / PARAMETERS).open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
    except OSError as error:
        raise RunError(f"{folder / PARAMETERS}: {error.strerror}") from None


def save(model: PreTrainedModel, tokenizer: Path, folder: Path) -> str:
    """Write `model` with the tokenizer files of the folder `tokenizer` into `folder`; returns the digest.

    `AutoModelForCausalLM.from_pretrained(folder)` and `AutoTokenizer.from_pretrained(folder)` load the result.
    """
    model.save_pretrained(folder, max_shard_size=_WHOLE)
    for name in TOKENIZER_FILES:
        if (tokenizer / name).is_file():
            shutil.copyfile(tokenizer / name, folder / name)
    return parameters_digest(folder)


def publish(model: PreTrainedModel, tokenizer: Path, parent: Path) -> tuple[str, Path]:
    """Save under `parent`/<digest>, whole or not at all; returns (digest, folder). Equal parameters share a folder."""
    parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=parent))
    try:
        digest = save(model, tokenizer, draft)
        folder = parent / digest
        if not folder.is_dir():
            draft.chmod(0o755)  # mkdtemp's folders are private
            os.replace(draft, folder)
        return digest, folder
    finally:
        shutil.rmtree(draft, ignore_errors=True)
