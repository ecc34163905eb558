"""Programs whose player writes programs: they judge the output of code that is executed elsewhere.

The code never runs in this process, which knows what is expected of it: the host executes it in a process of its own,
which knows the input alone (`execution`), and brings the output.
"""

from collections.abc import Generator
from typing import Any, NamedTuple

from .program import Answer, LoadedProgram, clean, guarded


class Execution(NamedTuple):
    """A wish: the output of this code for an input, within `seconds` and `most_bytes`.

    `function`: the one that is called with the input; "" for a whole program that reads it.
    """

    code: str
    function: str
    given: str
    seconds: float
    most_bytes: int


Judging = Generator[Execution, str | None, tuple[str, float, bool, bool, dict[str, object]]]
"""Yields executions and is sent the output of each, None where there is none; its end is the step."""


class JudgingEnv:
    """The base of such a program."""

    def judge(self, action: str) -> Judging:
        """One step."""
        raise NotImplementedError("judge is the environment's to write")

    def step(self, action: str) -> Any:
        """Never called: `judge` is."""
        raise NotImplementedError("the runtime calls judge")


class JudgingProgram(LoadedProgram):
    """A loaded program that extends JudgingEnv."""

    def step(self, action: str) -> Answer:
        """The first execution that the program wants, or its answer."""
        with guarded("play"):
            self.judging: Judging = self.instance.judge(action)
        return self.resume(None)

    def resume(self, output: str | None) -> Answer:
        """The next one, after the output of the one before."""
        with guarded("play"):
            try:
                wanted = self.judging.send(output)
            except StopIteration as end:
                return self.stepped(end.value)
            return {"is": "wanted", **wanted._asdict(), "given": clean(wanted.given)}
