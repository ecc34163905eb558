"""Run programs in this process. They have all of its rights, and nothing bounds their time and memory."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy

from actors.sandbox.inside.given import GIVEN
from actors.sandbox.inside.program import LoadedProgram, ProgramError, run_module

from .playing import SETTINGS, PackagedProgram, TurnResult

GIVEN["np"] = numpy


class BareProgram(PackagedProgram):
    """A program in this process. It has its own state of the global generators of `random` and numpy."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._loaded: LoadedProgram | None = None
        self._states = random.getstate(), numpy.random.get_state()

    def _begin(self, seed: int) -> str:
        with self._own_randomness():
            kind, repairs = run_module(self.source)
            self._loaded = LoadedProgram(kind, repairs, SETTINGS["max_turns"], SETTINGS["observation_bytes"])
            return str(self._loaded.reset(seed)["text"])

    def _play(self, action: str, turn: int) -> TurnResult:
        assert self._loaded is not None, "reset comes before step"
        with self._own_randomness():
            answer = self._loaded.step(action)
        reward = answer["reward"]
        assert isinstance(reward, float)
        return TurnResult(str(answer["text"]), reward, answer["terminated"] is True, answer["truncated"] is True)

    @contextmanager
    def _own_randomness(self) -> Iterator[None]:
        """Give the program its own state of the global generators. Raises RuntimeError if the program fails."""
        before = random.getstate(), numpy.random.get_state()
        _set_states(*self._states)
        try:
            yield
        except ProgramError as error:
            raise RuntimeError(f"the program failed ({error.kind}): {error.reason}") from None
        finally:
            self._states = random.getstate(), numpy.random.get_state()
            _set_states(*before)


make_program = BareProgram


def _set_states(ours: object, of_numpy: object) -> None:
    random.setstate(ours)  # type: ignore[arg-type]
    numpy.random.set_state(of_numpy)  # type: ignore[arg-type]
