"""Write and read a learner's state in one form for all backends. So a run may resume on another backend or rank count.

FOLDER/state.safetensors  whole form: `parameter.NAME` for each trained parameter and, once AdamW has taken a step,
                          `step.NAME`, `exp_avg.NAME` and `exp_avg_sq.NAME` (all float32), and the random states. The
                          header has the counters.
FOLDER/shards/            sharded form: parameters and moments, as `shards` writes them. Their shapes are in the header.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from learner.backends.fragments import PARAMETER, Fragments
from learner.checkpoint import Save
from spade.decoding import UnreadableError, try_decode
from spade.errors import RunError
from spade.policy.model import raise_named

FILE, SHARDS = "state.safetensors", "shards"
Shapes = Mapping[str, tuple[int, ...]]

_shapes: msgspec.json.Decoder[dict[str, tuple[int, ...]]] = msgspec.json.Decoder(dict[str, tuple[int, ...]])


class Counters(NamedTuple):
    """Counters of a learner's state."""

    step: int
    """Learner steps taken."""
    non_finite: int
    """Non-finite gradients in a row."""


def freeze(
    counters: Counters,
    tensors: Iterable[tuple[str, Tensor]],
    device: torch.device,
    *,
    copy: bool = True,
    sharded: Shapes | None = None,
) -> Save:
    """Return a function that writes `tensors` and this process's random states into an existing folder.

    The function raises OSError, which names the file.

    copy: if True, tensors are copied into the CPU's memory now. Else the function must be called before they change.
    sharded: if parameters and moments are in the folder `SHARDS`, the shapes of the trained parameters by name.
    """
    kept = {name: value.detach().to("cpu", copy=copy).contiguous() for name, value in tensors}
    kept["random"] = torch.get_rng_state()
    if device.type == "cuda":
        kept["random.device"] = torch.cuda.get_rng_state(device)
    header = {name: str(value) for name, value in counters._asdict().items()}
    if sharded is not None:
        header["shapes"] = msgspec.json.encode(sharded).decode()

    def save(folder: Path) -> dict[str, str]:
        with raise_named(folder / FILE):
            save_file(kept, folder / FILE, header)
        return {}

    return save


class State:
    """Reads a state, tensor by tensor, so that a rank takes only its part of each. Raises RunError if it is damaged."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            self._file = cast(Any, safe_open(folder / FILE, framework="pt"))
            header = self._file.metadata()
            self.counters = Counters(int(header["step"]), int(header["non_finite"]))
            self._sharded = "shapes" in header
            shapes = try_decode(_shapes.decode, header["shapes"].encode()) if self._sharded else None
        except (OSError, SafetensorError, LookupError, TypeError, ValueError, UnreadableError) as error:
            raise RunError(f"{folder}: the learner's state cannot be read ({error})") from None
        self._names = frozenset(self._file.keys())
        self._shapes = self._read_file_shapes() if shapes is None else shapes

    def check(self, shapes: Shapes) -> None:
        """Raise RunError if the state's trained parameters have other names or shapes than these."""
        differs = [name for name in {**shapes, **self._shapes} if shapes.get(name) != self._shapes.get(name)]
        if differs:
            raise RunError(
                f"{self._folder}: holds another model (its {differs[0]} differs); resume with the run's own model.path"
            )

    def steps(self, name: str) -> Tensor | None:
        """Return AdamW's count of steps for a parameter (float32), or None if no step had been taken."""
        kept = f"step.{name}"
        # Copy the tensor: a view would keep the whole mapped file.
        steps: Tensor | None = self._file.get_tensor(kept).clone() if kept in self._names else None
        return steps

    def fill(self, fragments: Fragments) -> None:
        """Fill the fragments of this process. Raises RunError if the state is damaged; some may then be filled."""
        if self._sharded:
            from learner.backends import shards  # import here: most learners do not need torch.distributed.checkpoint

            shards.read(self._folder / SHARDS, fragments)
            return
        try:
            for name, fragment in fragments.items():
                fragment.data.copy_(
                    self._file.get_tensor(name).flatten()[fragment.start : fragment.start + len(fragment.data)]
                )
        except SafetensorError as error:
            raise RunError(f"{self._folder}: the learner's state cannot be read ({error})") from None

    def restore_random(self, device: torch.device) -> None:
        """Set this process's random states."""
        torch.set_rng_state(self._file.get_tensor("random"))
        if device.type == "cuda" and "random.device" in self._names:
            torch.cuda.set_rng_state(self._file.get_tensor("random.device"), device)

    def _read_file_shapes(self) -> Shapes:
        prefix = f"{PARAMETER}."
        names = (name for name in self._names if name.startswith(prefix))
        return {name.removeprefix(prefix): tuple(self._file.get_slice(name).get_shape()) for name in names}
