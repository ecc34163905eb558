"""Programs as Gymnasium environments."""

import string
from typing import Any

import gymnasium
from gymnasium.spaces import Text

from .playing import NAMES, SETTINGS, open_program

ACTION_CHARACTERS = 4_096


class AnyText(Text):  # type: ignore[misc]
    """A space of texts of any characters. Its samples have printable ASCII characters."""

    def __init__(self, max_length: int) -> None:
        super().__init__(max_length, min_length=0, charset=string.printable)

    def contains(self, x: object) -> bool:
        """Return True if `x` is a text that is not too long."""
        return isinstance(x, str) and len(x) <= self.max_length


class ProgramEnv(gymnasium.Env):  # type: ignore[misc]
    """A program of this package. `lineage` says where it is from, `hint` is its hint or ""."""

    def __init__(self, program: str) -> None:
        self._program = open_program(program)
        self.hint = self._program.hint
        self.lineage = self._program.lineage
        self.observation_space = AnyText(SETTINGS["observation_bytes"])
        self.action_space = AnyText(ACTION_CHARACTERS)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode on the instance of `seed`. Without a seed the instance is drawn. Ignores `options`."""
        super().reset(seed=seed)
        instance = int(self.np_random.integers(2**63)) if seed is None else seed
        return self._program.reset(instance), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Send an action. Raises RuntimeError if the episode is over or the program fails."""
        return (*self._program.step(action), {})

    def close(self) -> None:
        """End the episode."""
        self._program.close()


IDS = [f"spade/{__package__}-{name}-v0" for name in NAMES]
"""The ids of all environments, for `gymnasium.make`."""

for _id, _name in zip(IDS, NAMES, strict=True):
    gymnasium.register(_id, f"{__name__}:ProgramEnv", kwargs={"program": _name})
