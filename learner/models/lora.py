"""LoRA (Hu et al. 2021, arXiv:2106.09685) by peft: W + alpha / rank * B A in every linear layer except the head."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from spade.config import Learner
from spade.errors import ConfigError
from spade.extras import describe_installing
from spade.policy.model import raise_named

_DOWN, _UP = ".lora_A.default.weight", ".lora_B.default.weight"


def adapt(model: Any, learner: Learner) -> None:
    """Put an adapter into a Hugging Face model and train only the adapter. Raises ConfigError if peft is missing.

    The matrix A has the same initial values in every process of a backend. The matrix B starts at 0.
    """
    with torch.random.fork_rng():
        torch.manual_seed(0)
        _import_peft().inject_adapter_in_model(_make_settings(learner), model)


def scale(learner: Learner) -> float:
    """Return alpha / rank, the factor of the product B A."""
    return learner.lora_alpha / learner.lora_rank


def pair_weights(trained: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the adapter of each weight, by the weight's name.

    A weight (outputs, inputs) has the matrices A (rank, inputs) and B (outputs, rank).
    """
    return {
        name.removesuffix(_DOWN) + ".weight": (value, trained[name.removesuffix(_DOWN) + _UP])
        for name, value in trained.items()
        if name.endswith(_DOWN)
    }


def write_adapter(state: Path, learner: Learner, folder: Path) -> None:
    """Write the adapter in the state file `state` as a folder that `PeftModel.from_pretrained` loads."""
    prefix = "parameter."
    with safe_open(state, framework="pt") as file:
        names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118
        tensors = {_name_published(name.removeprefix(prefix)): file.get_tensor(name) for name in names}
    folder.mkdir()
    _make_settings(learner).save_pretrained(folder)
    written = folder / "adapter_model.safetensors"
    with raise_named(written):
        save_file(tensors, written)


def _name_published(name: str) -> str:
    return f"base_model.model.{name.replace('.default.', '.')}"


def _make_settings(learner: Learner) -> Any:
    return _import_peft().LoraConfig(
        r=learner.lora_rank, lora_alpha=learner.lora_alpha, target_modules="all-linear", task_type="CAUSAL_LM"
    )


def _import_peft() -> Any:
    try:
        import peft
    except ImportError:
        raise ConfigError(f"learner.lora_rank: needs the package peft; {describe_installing('lora')}") from None
    return peft
