"""Messages of env-runners.

Env-runners run the episodes of agents and of the evaluator. They run the admission of programs for designers, curators
and the evaluator. An env-runner asks the replay service for a program that it does not have.
"""

from typing import Annotated, Literal

from msgspec import Meta

from spade.protocol.base import MOST_ARGUMENTS, MOST_CALLS, Form, Name, Repairs, Request, Wire
from spade.protocol.measures import Measures
from spade.protocol.session import Done


class ToolCall(Wire, frozen=True):
    """A call of a tool."""

    name: Name
    """Name of the tool."""

    arguments: Annotated[str, Meta(max_length=MOST_ARGUMENTS)] = "{}"
    """Text of a JSON object."""


MOST_VALUES = 64  # greatest length of `Verdict.suspects`, and of `Verdict.values`
Calls = Annotated[tuple[ToolCall, ...], Meta(max_length=MOST_CALLS)]


class ToolResult(Wire, frozen=True):
    """The result of a tool call."""

    text: str
    """The result. If the call fulfils an instruction, the next instruction follows."""

    refused: bool = False
    """True if the call was refused and never reached the program."""


class Observed(Wire, frozen=True):
    """A program's answer to a reset or an action, checked by the env-runner. The last five fields are for tools."""

    observation: str
    """The observation. With tools: the first instruction, the reply to the player's answer, or "" after calls alone."""

    reward: float = 0.0
    """Reward of the step."""

    terminated: bool = False
    """True if the program ended the episode."""

    truncated: bool = False
    """True if the turn limit or the program cut the episode off."""

    results: Annotated[tuple[ToolResult, ...], Meta(max_length=MOST_CALLS)] = ()
    """Results of the turn's calls, in the order of the calls."""

    tools: str = ""
    """JSON list of OpenAI function objects, sent only when the episode opens."""

    done: int = 0
    """Number of instructions that the player has fulfilled so far. 0 without tools."""

    instructions: int = 0
    """Number of all instructions. 0 without tools."""

    free: int = 0
    """Number of instructions that were already fulfilled when they were given. `done` includes them."""


class Faulted(Wire, frozen=True):
    """A fault ended the episode."""

    kind: Literal["exception", "timeout", "died", "protocol", "reward", "lost", "unknown", "infrastructure"]
    """Faults of the program: "exception", "timeout", "died", "protocol" and "reward". Faults of our services: "lost"
    (the env-runner does not know the episode), "unknown" (neither the env-runner nor the replay service has the
    program) and "infrastructure"."""

    detail: str
    """Text of the fault."""

    evicted: bool = False
    """True if the play was ended because the plays of its program took the most memory. Then it is void in a run."""

    @property
    def environment_fault(self) -> bool:
        """Return True if the program is to blame, or False if the play should be leased again."""
        return self.kind not in ("lost", "unknown", "infrastructure")


Seconds = Annotated[float, Meta(ge=0, le=1e9)]


class Needs(Wire, frozen=True):
    """Resources that an item of a suite needs. 0 if the env-runner's usual limit is enough.

    `actors.sandbox.host` restricts them to its own maximum.
    """

    step_s: Seconds = 0.0
    """Seconds for a step."""

    memory_bytes: Annotated[int, Meta(ge=0, le=2**50)] = 0
    """Bytes of memory."""


class OpenEpisode(Request[Observed | Faulted], frozen=True):
    """Start an episode: load the program, construct the environment, reset it. The reply `Observed` is turn 0.

    The reply is `Refused` if the env-runner is overloaded.
    """

    episode: str
    """Id of the episode, chosen by the sender."""

    program: Name
    """Digest of the program (`codec.compute_program_digest`). An env-runner without it asks the replay service."""

    seed: int
    """Seed of the instance."""

    max_turns: int
    """Turns after which the episode is truncated."""

    needs: Needs = Needs()
    """Time and memory that the program needs, if the env-runner's usual limits are too small."""


class StepEpisode(Request[Observed | Faulted], frozen=True):
    """Send one action. If the request is sent again, the env-runner only repeats its answer."""

    episode: str
    """Id of the episode."""

    turn: int
    """Number of the turn, from 1."""

    action: str
    """The action. With tools: the player's answer after its calls, or ""."""

    calls: Calls = ()
    """Tool calls of the message, executed in order."""


class CloseEpisode(Request[Done], frozen=True):
    """End an episode. Idempotent."""

    episode: str
    """Id of the episode."""


class KeepProgram(Request[Done], frozen=True):
    """Store a program for later episodes, because the replay service does not have it.

    The env-runner may drop the program when no episode uses it. The reply to `OpenEpisode` is then `Faulted` with the
    kind "unknown".
    """

    source: str
    """Source text of the program."""


class Program(Wire, frozen=True):
    """A program. The receiver checks its digest."""

    source: str
    """Source text of the program."""


class GetProgram(Request[Program], frozen=True):
    """Ask the replay service for a program.

    The reply is `Refused` if no active environment has this program.
    """

    program: Name
    """Digest of the program."""


class Stage(Wire, frozen=True):
    """The result of one stage of admission."""

    name: str
    """Name of the stage."""

    passed: bool
    """True if the program passed."""

    reason: str = ""
    """The reason for a failure, or ""."""

    seconds: float = 0.0
    """Duration of the stage."""


class Verdict(Wire, frozen=True):
    """The result of admission."""

    passed: bool
    """True if the program passed every stage."""

    stages: tuple[Stage, ...]
    """Stages in the order they ran. If `passed` is False, the last one failed."""

    name: str = ""
    """Name of the program's class."""

    seed_sensitive: bool = False
    """True if the seed changes the program's answers."""

    first_observation: str = ""
    """First observation that admission saw."""

    reads: Form = "inside"
    """Form of the actions that plays send to the program."""

    repairs: Repairs = ()
    """Repairs that the sandbox made when it loaded the program. Admission played the repaired program."""

    measures: Measures = Measures()
    """Measures of the program."""

    suspects: Annotated[tuple[str, ...], Meta(max_length=MOST_VALUES)] = ()
    """With tools: words in the solution's calls that no schema and no earlier instruction or result contains. Long
    words are cut."""

    values: Annotated[tuple[str, ...], Meta(max_length=MOST_VALUES)] = ()
    """Values that a hint must not state. With tools: arguments of the solution that no instruction and no schema
    states. For a game: words of its solutions that no observation states. Long values are cut."""

    replayed: str = ""
    """With tools: transcript of a play of the solution. A long transcript is cut."""

    single_turn: bool = False
    """True if every play of admission was over after its first action."""


class Validate(Request[Verdict], frozen=True):
    """Run the admission of a candidate, and return the result of every stage."""

    source: str
    """Source text of the candidate."""

    seed: int
    """Key from which the env-runner derives the secret seeds of the instances that it plays."""

    plays: bool = True
    """If False, admission only opens the instance of `seed` and plays nothing. For trusted programs of a library."""
