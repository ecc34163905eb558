"""Env-runners: agents play programs there, and designers have candidates admitted."""

from typing import Annotated, Literal

from msgspec import Meta

from spade.protocol.base import MOST_ARGUMENTS, MOST_CALLS, Form, Name, Repairs, Request, Wire
from spade.protocol.measures import Measures
from spade.protocol.session import Done


class ToolCall(Wire, frozen=True):
    """A call of a tool; `arguments` is the text of a JSON object."""

    name: Name
    arguments: Annotated[str, Meta(max_length=MOST_ARGUMENTS)] = "{}"


MOST_VALUES = 64  # suspects, or values, of a verdict
Calls = Annotated[tuple[ToolCall, ...], Meta(max_length=MOST_CALLS)]


class ToolResult(Wire, frozen=True):
    """The result of a call, with the instructions that it led to. A refused call never reached the program."""

    text: str
    refused: bool = False


class Observed(Wire, frozen=True):
    """The program's answer, after all checks.

    Of a program with tools: `results` of the turn's calls, in their order; `observation` is the first instruction or
    the reply to the turn's answer, "" where there is nothing to say beside the results; `tools` is the JSON of a list
    of OpenAI's function objects, at the opening only; `done` of its `instructions` are done, `free` of them were met
    when they were given.
    """

    observation: str
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    results: Annotated[tuple[ToolResult, ...], Meta(max_length=MOST_CALLS)] = ()
    tools: str = ""
    done: int = 0
    instructions: int = 0
    free: int = 0


class Faulted(Wire, frozen=True):
    """The episode is over by a fault.

    kind: exception, timeout, died, protocol and reward are the program's; lost (no such episode here), unknown (no such
    program, here or at the replay service) and infrastructure are ours.
    """

    kind: Literal["exception", "timeout", "died", "protocol", "reward", "lost", "unknown", "infrastructure"]
    detail: str

    @property
    def environment_fault(self) -> bool:
        """True if the program is to blame, False if the play is to be leased again."""
        return self.kind not in ("lost", "unknown", "infrastructure")


Wanted = Annotated[float, Meta(ge=0, le=1e9)]


class Needs(Wire, frozen=True):
    """The needs of a suite's item beyond the env-runner's own limits; 0 is nothing more.

    Seconds of a step and of processor time, bytes of memory. `sandbox.suite_s` and `sandbox.suite_bytes` bound them.
    """

    step_s: Wanted = 0.0
    processor_s: Wanted = 0.0
    memory_bytes: Annotated[int, Meta(ge=0, le=2**50)] = 0


class OpenEpisode(Request[Observed | Faulted], frozen=True):
    """Start an episode: load, construct, reset. Observed is turn 0. Refused: the env-runner is overloaded.

    `program` is its digest (`codec.program_digest`): an env-runner that does not have it asks the replay service.
    """

    episode: str
    program: Name
    seed: int
    max_turns: int
    needs: Needs = Needs()


class StepEpisode(Request[Observed | Faulted], frozen=True):
    """One action; `turn` counts from 1: a repeated request is answered from memory.

    To a program with tools: the `calls` of a message, executed in order, then its answer as `action`; "" is none.
    """

    episode: str
    turn: int
    action: str
    calls: Calls = ()


class CloseEpisode(Request[Done], frozen=True):
    """The episode is over. Idempotent."""

    episode: str


class KeepProgram(Request[Done], frozen=True):
    """Keep a program for later episodes that the replay service does not have.

    The env-runner may drop it while it is not played; OpenEpisode then fails with `unknown`.
    """

    source: str


class Program(Wire, frozen=True):
    """A program; the receiver checks that it has the digest."""

    source: str


class GetProgram(Request[Program], frozen=True):
    """Ask the replay service for a program by its digest. Refused: no active environment has it."""

    program: Name


class Stage(Wire, frozen=True):
    """One stage of admission."""

    name: str
    passed: bool
    reason: str = ""
    seconds: float = 0.0


class Verdict(Wire, frozen=True):
    """The stages in the order they ran; if `passed` is False the last one failed.

    `name`: the class's name. `reads`: the form in which plays send actions to the program. `repairs`: those that its
    process reported; it was played with them. `single_turn`: each play of admission was over after its first action.

    `values` are what a hint must not tell. With tools they are arguments of the solution that no instruction and no
    schema states. Of a game they are words of its solutions that no observation tells. `suspects` are words of
    calls of the solution that nothing before them told, and `replayed` is the transcript of the solution as text, both
    of a program with tools. All three are cut if they are long.
    """

    passed: bool
    stages: tuple[Stage, ...]
    name: str = ""
    seed_sensitive: bool = False
    first_observation: str = ""
    reads: Form = "inside"
    repairs: Repairs = ()
    measures: Measures = Measures()
    suspects: Annotated[tuple[str, ...], Meta(max_length=MOST_VALUES)] = ()
    values: Annotated[tuple[str, ...], Meta(max_length=MOST_VALUES)] = ()
    replayed: str = ""
    single_turn: bool = False


class Validate(Request[Verdict], frozen=True):
    """Admit a candidate or give the reason against it. `seed` keys the secret instance seeds.

    Without `plays` it is only opened, as the instance of that seed: a library's program is trusted to be sound.
    """

    source: str
    seed: int
    plays: bool = True
