"""Programs that judge code of their player, by the output of an execution in another process.

The code never runs in this process, since this process knows the expected output. The host executes the code in a
process that knows only the input (`execution`), and sends the output here.
"""

from collections.abc import Generator
from typing import Any, NamedTuple

from .program import Answer, LoadedProgram, escape_surrogates, guard_calls


class Execution(NamedTuple):
    """A request to execute code on an input."""

    code: str
    """The code of the player."""
    function: str
    """The function or method to call with the input; "" for a whole program that reads the input."""
    given: str
    """The input."""
    seconds: float
    """The deadline."""
    most_bytes: int
    """Most bytes of the output."""


Judging = Generator[Execution, str | None, tuple[str, float, bool, bool, dict[str, object]]]
"""Yield executions and receive the output of each, None if it failed. Return the result of the step."""


class JudgingEnv:
    """The base of a program that judges code of its player."""

    def judge(self, action: str) -> Judging:
        """Play one step."""
        raise NotImplementedError("the program must define judge")

    def step(self, action: str) -> Any:
        """Raise NotImplementedError: the runtime calls `judge` instead."""
        raise NotImplementedError("the runtime calls judge")


class JudgingProgram(LoadedProgram):
    """A loaded program that extends JudgingEnv."""

    def step(self, action: str) -> Answer:
        """Return the first execution that the program wants, or its answer."""
        with guard_calls("play"):
            self.judging: Judging = self.instance.judge(action)
        return self.resume(None)

    def resume(self, output: str | None) -> Answer:
        """Return the next execution, or the answer, after the output of the previous execution."""
        with guard_calls("play"):
            try:
                wanted = self.judging.send(output)
            except StopIteration as end:
                return self.stepped(end.value)
            return {"is": "wanted", **wanted._asdict(), "given": escape_surrogates(wanted.given)}
