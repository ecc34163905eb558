"""Load checkpoint folders in the Hugging Face layout, and publish them under the digest of their parameters."""

import errno
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel

from spade.disk import discard, is_copy, open_only_draft
from spade.errors import ConfigError, RunError, WeightsError
from spade.policy import canary, manifest
from spade.policy.manifest import PARAMETERS
from spade.policy.structure import check_report, read_model

# Hugging Face's names of a tokenizer's files. A checkpoint has some of them.
TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
    "vocab.json", "merges.txt", "tokenizer.model", "generation_config.json",
)  # fmt: skip
_WHOLE = "1000TB"  # bound of one file, so large that all parameters go into PARAMETERS


def pick_device(name: str) -> torch.device:
    """Return the device called `name`. "auto" is the GPU if there is one, else the CPU. Raises ConfigError."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"no device {name!r}; use 'auto', 'cpu', 'cuda' or 'cuda:N'") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device {name!r}: torch sees no GPU here; use 'auto' or 'cpu'")
    return device


def require_gpus(setting: str, listed: tuple[int, ...], gpus: tuple[int, ...] | None) -> None:
    """Check that torch sees the GPUs of this process. `gpus` is its share of `listed`, the GPUs that `setting` lists.

    Raises ConfigError if `gpus` is empty or has GPUs that torch does not see. If the setting is an empty list, as on a
    cluster, nothing is checked: a process that sees no GPU uses another device.
    """
    if not listed:
        return
    if gpus == ():
        raise ConfigError(f"{setting}: all GPUs that it names are taken; name more there, or start fewer processes")
    if gpus and (count := torch.cuda.device_count()) < len(gpus):
        raise ConfigError(
            f"{setting}: of {list(gpus)} torch sees {count} here; indices count from 0 among the GPUs of this machine, "
            "or among those of CUDA_VISIBLE_DEVICES if it is set (`spade doctor` lists them)"
        )


def load(folder: Path, *, dtype: str, device: torch.device, digest: str | None = None) -> PreTrainedModel:
    """Load the causal language model of `folder` in evaluation mode. With `digest`, check its parameters first.

    dtype: "float32", "bfloat16" or "float64". Raises WeightsError for other parameters, RunError if the folder does not
    hold a whole model.
    """
    if digest is not None and compute_parameters_digest(folder) != digest:
        raise manifest.make_changed_error(folder, digest)
    model: Any
    model, report = read_model(folder, dtype=getattr(torch, dtype))
    check_report(folder, model, report)
    check_finite(folder, model)
    try:
        model.generation_config.validate(strict=True)
    except ValueError:  # Transformers loads such a file and refuses to save it. A publication copies the file itself.
        model.generation_config = GenerationConfig.from_model_config(model.config)
    loaded: PreTrainedModel = model.to(device).eval()
    return loaded


def check_finite(folder: Path, model: PreTrainedModel) -> None:
    """Raise RunError unless every parameter of `model` is finite. folder: the checkpoint's folder or file."""
    for name, value in model.named_parameters():
        # Checking the least and the greatest number is much faster, and suffices: a NaN makes both of them NaN.
        if not all(end.isfinite() for end in value.aminmax()):
            raise RunError(f"{folder}: its tensor {name} holds numbers that are not finite; give a sound checkpoint")


def compute_parameters_digest(folder: Path) -> str:
    """Return the digest (`manifest`) of the parameters in `folder`, after reading every byte.

    Raises RunError, WeightsError.
    """
    try:
        return manifest.compute_digest(manifest.measure(folder))
    except OSError as error:
        raise RunError(f"{folder / PARAMETERS}: {error.strerror}") from None


@torch.no_grad()
def refill(model: PreTrainedModel, folder: Path, digest: str) -> None:
    """Copy the published parameters of `folder` into `model` in place, without a second model in memory.

    The file is mapped, not read. Its bytes are not checked (`manifest.verify` checks them). If the file and the model
    divide their tensors differently (a file may hold each expert alone), a second model is loaded. Raises WeightsError,
    before it copies anything, if the folder holds other weights or another model's. Raises FileNotFoundError if the
    folder is gone.
    """
    published = manifest.read(folder, digest)
    state = model.state_dict()
    kept = {state[name].data_ptr() for name in published.keys() & state.keys()}
    try:
        if published.keys() <= state.keys() and all(one.data_ptr() in kept for one in state.values()):
            with safe_open(folder / PARAMETERS, framework="pt") as file:
                _copy({name: file.get_tensor(name) for name in published}, state, folder)
        else:
            dtype = str(model.dtype).removeprefix("torch.")
            _copy(load(folder, dtype=dtype, device=torch.device("cpu")).state_dict(), state, folder)
    except SafetensorError as error:
        raise WeightsError(f"{folder / PARAMETERS}: {error}") from None


def _copy(source: Mapping[str, Tensor], target: Mapping[str, Tensor], folder: Path) -> None:
    for name, value in source.items():
        if name not in target or value.shape != target[name].shape:
            raise WeightsError(f"{folder / PARAMETERS}: its {name} does not fit the model that is loaded")
    for name, value in source.items():
        target[name].copy_(value)


@contextmanager
def raise_named(file: Path) -> Iterator[None]:
    """Turn an error of safetensors, which writes `file` in the block, into an OSError that names the file.

    safetensors reports a full disk only in the text of its error.
    """
    try:
        yield
    except SafetensorError as error:
        raise OSError(errno.EIO, str(error), str(file)) from None


def write_parameters(model: PreTrainedModel, folder: Path) -> None:
    """Write the parameters and the config of `model` into `folder`. Raises OSError, which names the file."""
    with raise_named(folder / PARAMETERS):
        model.save_pretrained(folder, max_shard_size=_WHOLE)


def save(model: PreTrainedModel, tokenizer: Path, folder: Path) -> str:
    """Write `model`, its manifest and the files of `tokenizer` (a folder) into `folder`. Returns the digest.

    `AutoModelForCausalLM.from_pretrained(folder)` and `AutoTokenizer.from_pretrained(folder)` load the result.
    """
    write_parameters(model, folder)
    copy_tokenizer(tokenizer, folder)
    return manifest.write(folder)


def copy_tokenizer(source: Path, folder: Path) -> None:
    """Copy the tokenizer files of the folder `source`."""
    for name in TOKENIZER_FILES:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)


def publish(
    model: PreTrainedModel, tokenizer: Path, parent: Path, expected: canary.Canary | None = None
) -> tuple[str, Path]:
    """Save under `parent`/<digest>, whole or not at all. Returns (digest, folder). Equal parameters share a folder.

    `expected` is the canary of the trained model, if `model` is only a copy of it for publication. Also deletes the
    drafts that killed processes left in `parent`.
    """
    with open_only_draft(parent) as made:
        digest = save(model, tokenizer, made)
        canary.write(expected or canary.compute(model), made)
        folder = parent / digest
        if folder.is_dir() and not is_copy(folder, made):
            discard(folder)  # a loss of power damaged it
        if not folder.is_dir():
            os.replace(made, folder)
    return digest, folder
