"""Run programs in this process, with all rights of the process. Nothing bounds their time and memory."""

import decimal
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy

from actors.sandbox.inside.given import GIVEN
from actors.sandbox.inside.program import LoadedProgram, ProgramError, run_module

from .playing import SETTINGS, PackagedProgram, TurnResult

GIVEN["np"] = numpy
_PRINTED = {
    "edgeitems": 3, "floatmode": "maxprec", "formatter": None, "infstr": "inf", "legacy": False, "linewidth": 75,
    "nanstr": "nan", "precision": 8, "sign": "-", "suppress": False, "threshold": 1000,
}  # fmt: skip
_ERRORS = {"divide": "warn", "invalid": "warn", "over": "warn", "under": "ignore"}
"""numpy's printing and error options in a new process. In a run, every program begins with them."""


class BareProgram(PackagedProgram):
    """A program in this process, with its own states of `random`, `decimal` and numpy."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._loaded: LoadedProgram | None = None
        self._states = _get_states()

    def _begin(self, seed: int) -> str:
        self._states = *self._states[:2], _PRINTED, _ERRORS, decimal.Context()
        with self._own_states():
            kind, repairs = run_module(self.source)
            self._loaded = LoadedProgram(kind, repairs, SETTINGS["max_turns"], SETTINGS["observation_bytes"])
            return str(self._loaded.reset(seed)["text"])

    def _play(self, action: str, turn: int) -> TurnResult:
        assert self._loaded is not None, "reset comes before step"
        with self._own_states():
            answer = self._loaded.step(action)
        reward = answer["reward"]
        assert isinstance(reward, float)
        if not abs(reward) <= SETTINGS["reward_bound"]:
            raise RuntimeError(f"the program failed (reward): the reward must be within ±{SETTINGS['reward_bound']:g}")
        return TurnResult(str(answer["text"]), reward, answer["terminated"] is True, answer["truncated"] is True)

    @contextmanager
    def _own_states(self) -> Iterator[None]:
        """Run the block with the program's own global states. Raises RuntimeError if the program fails."""
        before = _get_states()
        _set_states(*self._states)
        try:
            yield
        except ProgramError as error:
            raise RuntimeError(f"the program failed ({error.kind}): {error.reason}") from None
        finally:
            self._states = _get_states()
            _set_states(*before)


make_program = BareProgram


def _get_states() -> tuple[Any, ...]:
    """Return the global states that a program may change: of `random`, numpy and `decimal`."""
    options = numpy.get_printoptions(), numpy.geterr(), decimal.getcontext()
    return random.getstate(), numpy.random.get_state(), *options


def _set_states(generator: Any, of_numpy: Any, printed: dict[str, Any], errors: Any, context: decimal.Context) -> None:
    random.setstate(generator)
    numpy.random.set_state(of_numpy)
    numpy.set_printoptions(**printed)
    numpy.seterr(**errors)
    decimal.setcontext(context)
