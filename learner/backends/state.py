"""A learner's state in a form common to all backends: a run may resume on another backend or number of processes.

One safetensors file: `parameter.NAME` for each trained parameter, AdamW's `step.NAME`, `exp_avg.NAME` and
`exp_avg_sq.NAME` once it has taken a step (all float32, whole), the random states; the counters in its header.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from spade.errors import RunError

FILE = "state.safetensors"
MOMENTS = ("exp_avg", "exp_avg_sq")


class Counters(NamedTuple):
    """Learner steps taken, and how many gradients in a row were not finite."""

    step: int
    non_finite: int


def write(folder: Path, counters: Counters, tensors: dict[str, Tensor], device: torch.device) -> None:
    """Write `tensors` and this process's random states into an existing folder."""
    tensors = {name: value.contiguous() for name, value in tensors.items()} | {"random": torch.get_rng_state()}
    if device.type == "cuda":
        tensors["random.device"] = torch.cuda.get_rng_state(device)
    save_file(tensors, folder / FILE, {name: str(value) for name, value in counters._asdict().items()})


class State:
    """A reader of a state file. Tensors are read one by one: a rank takes its part of each. Raises RunError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            self._file = cast(Any, safe_open(folder / FILE, framework="pt"))
        except (OSError, SafetensorError) as error:
            raise RunError(f"{folder}: the learner's state cannot be read ({error})") from None
        header = self._file.metadata()
        self.counters = Counters(int(header["step"]), int(header["non_finite"]))
        self._names = frozenset(self._file.keys())

    def parameter(self, name: str, shape: torch.Size) -> Tensor:
        """Raise RunError if the state is of another model."""
        key = f"parameter.{name}"
        if key not in self._names or torch.Size(self._file.get_slice(key).get_shape()) != shape:
            raise RunError(
                f"{self._folder}: holds another model (its {name} differs); resume with the run's own model.path"
            )
        kept: Tensor = self._file.get_tensor(key)
        return kept

    def optimizer(self, name: str) -> dict[str, Tensor]:
        """AdamW's state of a parameter; empty before its first step."""
        keys = {key: f"{key}.{name}" for key in ("step", *MOMENTS)}
        return {key: self._file.get_tensor(kept) for key, kept in keys.items() if kept in self._names}

    def restore_random(self, device: torch.device) -> None:
        """Set this process's random states."""
        torch.set_rng_state(self._file.get_tensor("random"))
        if device.type == "cuda" and "random.device" in self._names:
            torch.cuda.set_rng_state(self._file.get_tensor("random.device"), device)


def trained(model: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Parameter]]:
    """The trained parameters, by name."""
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)
