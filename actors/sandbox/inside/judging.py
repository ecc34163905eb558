"""Programs that judge a player's code by its output.

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
    """The seconds that the execution may take."""
    most_bytes: int
    """The largest size of the output."""


Judging = Generator[Execution, str | None, tuple[str, float, bool, bool, dict[str, object]]]
"""A generator that yields executions and receives the output of each, or None if the execution failed.

It returns the result of the step.
"""


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
        """Start a step. Return the first execution that the program wants, or the result if it wants no execution."""
        with guard_calls("play"):
            self.judging: Judging = self.instance.judge(action)
        return self.resume(None)

    def resume(self, output: str | None) -> Answer:
        """Continue the step with the output of the previous execution. Return the next execution, or the result."""
        with guard_calls("play"):
            try:
                wanted = self.judging.send(output)
            except StopIteration as end:
                return self.stepped(end.value)
            return {"is": "wanted", **wanted._asdict(), "given": escape_surrogates(wanted.given)}
