"""Programs as Gymnasium environments. How a program is run is up to a subclass."""

import json
import string
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
from gymnasium.spaces import Text

FOLDER = Path(__file__).parent
SETTINGS: dict[str, Any] = json.loads((FOLDER / "settings.json").read_text(encoding="utf-8"))
"""Settings of the run: `max_turns` of a play, `observation_bytes`, and `sandbox` with the limits of the sandbox."""
ACTION_CHARACTERS = 4_096


class TurnResult(NamedTuple):
    """The program's answer to a turn."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool


class AnyText(Text):  # type: ignore[misc]
    """A space of texts of any characters. Its samples have printable ASCII characters."""

    def __init__(self, max_length: int) -> None:
        super().__init__(max_length, min_length=0, charset=string.printable)

    def contains(self, x: object) -> bool:
        """Return True if `x` is a text that is not too long."""
        return isinstance(x, str) and len(x) <= self.max_length


class ProgramEnv(gymnasium.Env):  # type: ignore[misc]
    """A program of this package. `lineage` says where it is from, `hint` is its hint or "".

    A subclass has `_begin`, `_play` and `close`.
    """

    def __init__(self, program: str) -> None:
        programs = FOLDER / "programs"
        hint = programs / f"{program}.hint"
        self.source = (programs / f"{program}.py").read_bytes().decode()
        self.hint = hint.read_text(encoding="utf-8") if hint.exists() else ""
        self.lineage: dict[str, Any] = json.loads((programs / f"{program}.json").read_text(encoding="utf-8"))["lineage"]
        self.observation_space = AnyText(SETTINGS["observation_bytes"])
        self.action_space = AnyText(ACTION_CHARACTERS)
        self._turn = 0
        self._over = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Begin an episode on the instance of `seed`. Without a seed the instance is drawn. Ignores `options`."""
        super().reset(seed=seed)
        instance = int(self.np_random.integers(2**63)) if seed is None else seed
        self._turn, self._over = 0, False
        return self._begin(instance), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Send an action. Raises RuntimeError if the episode is over or the program fails."""
        if self._over:
            raise RuntimeError("the episode is over; call reset")
        self._turn += 1
        if self.lineage["reads"] == "box" and action and "\\boxed{" not in action:
            action = f"\\boxed{{{action}}}"
        self._over = True  # if the program fails
        played = self._play(action, self._turn)
        truncated = played.truncated or (self._turn >= SETTINGS["max_turns"] and not played.terminated)
        self._over = played.terminated or truncated
        return played.observation, played.reward, played.terminated, truncated, {}

    def _begin(self, seed: int) -> str:
        """Load the program, reset it and return its first observation."""
        raise NotImplementedError

    def _play(self, action: str, turn: int) -> TurnResult:
        """Send an action to the program. `turn` counts from 1."""
        raise NotImplementedError


def register(kind: type[ProgramEnv]) -> list[str]:
    """Register the programs of this package with Gymnasium. Return their ids."""
    ids = []
    for file in sorted((FOLDER / "programs").glob("*.py")):
        ids.append(f"spade/{__package__}-{file.stem}-v0")
        gymnasium.register(ids[-1], f"{kind.__module__}:{kind.__name__}", kwargs={"program": file.stem})
    return ids
