"""Play the programs of this package. A subclass of PackagedProgram decides where a program runs."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from actors.text.actions import format_action

FOLDER = Path(__file__).parent
SETTINGS: dict[str, Any] = json.loads((FOLDER / "settings.json").read_text(encoding="utf-8"))
"""Settings of the run: `max_turns` of a play, `observation_bytes`, `reward_bound`, and `sandbox` with its limits.

`runner` is the module that runs the programs, `sandboxed` or `bare`. `openings` has the messages before the model's
first turn: one list for programs of many turns, then one for `single_turn` programs. The text `slot` in them stands for
the first observation.
"""
NAMES = sorted(file.stem for file in (FOLDER / "programs").glob("*.py"))
"""The names of the programs."""


class TurnResult(NamedTuple):
    """The program's answer to a turn."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool


class PackagedProgram:
    """A program of this package with one episode at a time. `lineage` says where it is from, `hint` is its hint or "".

    A subclass has `_begin` and `_play`. Both raise RuntimeError if the program fails.
    """

    def __init__(self, name: str) -> None:
        programs = FOLDER / "programs"
        hint = programs / f"{name}.hint"
        self.source = (programs / f"{name}.py").read_bytes().decode()
        self.hint = hint.read_text(encoding="utf-8") if hint.exists() else ""
        self.lineage: dict[str, Any] = json.loads((programs / f"{name}.json").read_text(encoding="utf-8"))["lineage"]
        self._turn = 0
        self._over = True

    def reset(self, seed: int) -> str:
        """Begin an episode on the instance of `seed`. Return its first observation."""
        self._turn, self._over = 0, False
        return self._begin(seed)

    def step(self, action: str) -> TurnResult:
        """Send an action. Raises RuntimeError if the episode is over."""
        if self._over:
            raise RuntimeError("the episode is over; call reset")
        self._turn += 1
        self._over = True  # it stays True if the program fails
        text = action.encode(errors="backslashreplace").decode()  # escapes lone surrogates, as in observations
        played = self._play(format_action(text, self.lineage["reads"]), self._turn)
        late = self._turn >= SETTINGS["max_turns"] and not played.terminated
        played = played._replace(truncated=played.truncated or late)
        self._over = played.terminated or played.truncated
        return played

    def close(self) -> None:
        """End the episode."""

    def _begin(self, seed: int) -> str:
        """Load the program, reset it and return its first observation."""
        raise NotImplementedError

    def _play(self, action: str, turn: int) -> TurnResult:
        """Send an action to the program. `turn` counts from 1."""
        raise NotImplementedError


def open_program(name: str) -> PackagedProgram:
    """Return a program. It runs in the sandbox, or in this process if the package was exported with `--bare`."""
    program: PackagedProgram = import_module(f".{SETTINGS['runner']}", __package__).make_program(name)
    return program
