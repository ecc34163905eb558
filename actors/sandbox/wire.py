"""The frames between the host and a child: the host's requests, and the only answers that it accepts.

A frame is a length (little-endian uint32) and JSON of this many bytes. It is JSON because the child has only the
standard library. A nonce names the request, so an answer written in advance does not count.
"""

from typing import Annotated, Any, Literal

import msgspec

from actors.sandbox.inside.messages import LENGTH, MOST_INSTRUCTIONS, NAME_CHARACTERS
from spade.config import DomainName
from spade.decoding import try_decode

OBSERVATION_BYTES = 262_144
"""The largest size of an observation, or of the results of all calls in a message, as UTF-8. More is a fault of the
program."""
Instructions = Annotated[int, msgspec.Meta(ge=0, le=MOST_INSTRUCTIONS)]


class LoadProgram(msgspec.Struct, frozen=True, tag_field="do", tag="load"):
    """Compile and run the program and choose its class. Answer: LoadReply."""

    source: str
    """The program's text."""
    max_turns: int
    """The largest number of turns of an episode."""
    observation_bytes: int = OBSERVATION_BYTES
    """The largest size of an observation, and of the results of all calls in a message."""


class Reset(msgspec.Struct, frozen=True, tag_field="do", tag="reset"):
    """Make a new instance and reset it. Answer: StepReply."""

    seed: int
    """The instance seed."""


class Step(msgspec.Struct, frozen=True, tag_field="do", tag="step"):
    """Play one action. Answer: StepReply. A program that judges code may first answer with an ExecutionRequest."""

    action: str
    """The action as text."""


class Act(msgspec.Struct, frozen=True, tag_field="do", tag="act"):
    """Play one message to a program with tools. Answer: StepReply."""

    calls: tuple[tuple[str, str], ...]
    """The calls of the message, in order: name, and arguments as JSON."""
    answer: str = ""
    """The text of the answer after the calls. "" if the message has no answer."""


class Inspect(msgspec.Struct, frozen=True, tag_field="do", tag="inspect"):
    """Report the state of a program with tools, and which of its criteria hold. Answer: InspectReply."""


class Solve(msgspec.Struct, frozen=True, tag_field="do", tag="solve"):
    """Report the reference solution of the instance. Answer: SolutionReply."""


class Execute(msgspec.Struct, frozen=True, tag_field="do", tag="execute"):
    """Run code on an input. The child has loaded no program and is killed afterwards. Answer: ExecutionReply."""

    code: str
    """The code of a player."""
    function: str
    """The function or method to call; "" for a whole program that reads standard input."""
    given: str
    """The input."""


class Resume(msgspec.Struct, frozen=True, tag_field="do", tag="resume"):
    """Continue a step with the output of the wanted execution. The answers are the same as to Step."""

    output: str | None
    """The output, or None if the execution failed."""


class ChildAnswer(msgspec.Struct, frozen=True, tag_field="is", forbid_unknown_fields=True):
    """Base of a child's answers."""

    nonce: str
    """The nonce of the request."""


class LoadReply(ChildAnswer, frozen=True, tag="loaded"):
    """The program is loaded. The bounds of `inside.program` are checked again here, since an answer may be forged."""

    name: Annotated[str, msgspec.Meta(pattern=rf"\A[A-Za-z_][A-Za-z0-9_]{{0,{NAME_CHARACTERS - 1}}}\Z")]
    """The name of the environment's class."""
    repairs: Annotated[tuple[Literal["f-string braces"], ...], msgspec.Meta(max_length=1)] = ()
    """The repairs that the child made to the program's text."""
    domain: DomainName = "games"
    """The domain of the program, by its base class."""


class CallResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of a call."""

    text: str
    """The result, or the reason of the refusal."""
    refused: bool
    """True if the call was refused. A refused call never reached the program."""


class ToolFunction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool."""

    name: Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]{0,63}\Z")]
    """The name of the tool."""
    description: str
    """The description for the player."""
    parameters: dict[str, Any]
    """The schema of the arguments."""


class OfferedTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool as OpenAI's function object."""

    type: Literal["function"]
    """Always "function"."""
    function: ToolFunction
    """The tool itself."""


class StepReply(ChildAnswer, frozen=True, tag="observed"):
    """The result of `reset`, `step` or a message."""

    text: str
    """The observation."""
    reward: float
    """The reward, not bounded yet."""
    terminated: bool
    """True if the program ended the episode."""
    truncated: bool
    """True if the program cut the episode off."""
    results: tuple[CallResult, ...] = ()
    """The results of a message's calls."""
    tools: tuple[OfferedTool, ...] = ()
    """The tools of the program, after `reset`."""
    done: Instructions = 0
    """Number of instructions that are done."""
    instructions: Instructions = 0
    """Number of all instructions."""
    free: Instructions = 0
    """Number of done instructions with a criterion that already held when the instruction was given."""


class Criterion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A criterion, evaluated on the present state."""

    met: bool
    """True if the criterion holds."""
    error: str
    """The exception that the criterion raised; "" without one."""
    changes: bool
    """True if the criterion changed the state."""


class InspectReply(ChildAnswer, frozen=True, tag="inspected"):
    """The state of a program with tools."""

    instructions: tuple[str, ...]
    """All instructions."""
    criteria: tuple[Criterion, ...]
    """The criterion of each instruction."""
    state: str
    """The state in canonical form, as JSON."""
    done: Instructions
    """Number of instructions that are done."""
    free: Instructions
    """Number of done instructions with a criterion that already held when the instruction was given."""


class SolutionReply(ChildAnswer, frozen=True, tag="solved"):
    """The reference solution."""

    actions: tuple[str, ...] | None
    """The winning actions; None if the solution is only described."""
    calls: tuple[tuple[str, str], ...] = ()
    """The winning calls of a program with tools: name, and arguments as JSON."""


class ExecutionRequest(ChildAnswer, frozen=True, tag="wanted"):
    """A judging program asks the host to execute this code, before it answers a step."""

    code: str
    """The code of a player."""
    function: str
    """The function or method to call; "" for a whole program that reads standard input."""
    given: str
    """The input."""
    seconds: Annotated[float, msgspec.Meta(ge=0)]
    """The seconds that the execution may take."""
    most_bytes: Annotated[int, msgspec.Meta(ge=0)]
    """The largest size of the output, in bytes."""


class ExecutionReply(ChildAnswer, frozen=True, tag="executed"):
    """The result of an execution."""

    output: str | None
    """The output; None if the code raised."""


class FailureReply(ChildAnswer, frozen=True, tag="fault"):
    """The program failed."""

    kind: Literal["exception", "protocol", "reward"]
    """The kind of the fault."""
    stage: Literal["parse", "class", "interface", "construct", "schema", "play"]
    """The stage in which the program failed."""
    detail: str
    """The fault, for a person."""


Request = LoadProgram | Reset | Step | Act | Inspect | Solve | Execute | Resume
Response = LoadReply | StepReply | InspectReply | SolutionReply | ExecutionRequest | ExecutionReply | FailureReply

_responses: msgspec.json.Decoder[Response] = msgspec.json.Decoder(Response)


def pack(request: Request, nonce: str) -> bytes:
    """Encode a request as a frame."""
    body = msgspec.json.encode({**msgspec.to_builtins(request), "nonce": nonce})
    return LENGTH.pack(len(body)) + body


def unpack(body: bytes) -> Response:
    """Decode the body of an answer's frame. Raises UnreadableError if it is not a valid answer."""
    return try_decode(_responses.decode, body)
