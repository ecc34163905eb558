"""The frames between the host and a child: what we ask, and the only answers we accept.

A frame is its length (little-endian uint32) and as much JSON; JSON because the child has the standard library alone. A
nonce names the request, so that an answer written in advance is no answer.
"""

from typing import Annotated, Any, Literal

import msgspec

from actors.sandbox.inside.messages import LENGTH, MOST_INSTRUCTIONS, NAME_CHARACTERS
from spade.decoding import decoded

Instructions = Annotated[int, msgspec.Meta(ge=0, le=MOST_INSTRUCTIONS)]


class LoadProgram(msgspec.Struct, frozen=True, tag_field="do", tag="load"):
    """Compile and run the program and choose its class. Answer: Loaded."""

    source: str
    max_turns: int
    observation_bytes: int


class Reset(msgspec.Struct, frozen=True, tag_field="do", tag="reset"):
    """A new instance, reset with `seed`. Answer: Answered."""

    seed: int


class Step(msgspec.Struct, frozen=True, tag_field="do", tag="step"):
    """One action. Answer: Answered."""

    action: str


class Act(msgspec.Struct, frozen=True, tag_field="do", tag="act"):
    """One message to a program with tools: its calls (name, arguments as JSON), then its answer, "" for none.

    Answer: Answered.
    """

    calls: tuple[tuple[str, str], ...]
    answer: str = ""


class Inspect(msgspec.Struct, frozen=True, tag_field="do", tag="inspect"):
    """The state of a program with tools, and its criteria on it. Answer: Inspected."""


class Solve(msgspec.Struct, frozen=True, tag_field="do", tag="solve"):
    """The reference solution of the instance. Answer: Solved."""


class Execute(msgspec.Struct, frozen=True, tag_field="do", tag="execute"):
    """Code to run on this input, to a child that has loaded nothing and is of no use afterwards. Answer: Executed."""

    code: str
    function: str
    given: str


class Resume(msgspec.Struct, frozen=True, tag_field="do", tag="resume"):
    """The output of the execution that was wanted, None where there is none. Answer: as to the step."""

    output: str | None


class ChildAnswer(msgspec.Struct, frozen=True, tag_field="is", forbid_unknown_fields=True):
    """Base of a child's answers."""

    nonce: str


class Loaded(ChildAnswer, frozen=True, tag="loaded"):
    """The `name` of the environment's class, and the `repairs` that the child made to the program's text.

    The bounds are those of `inside.program`; a forged answer must keep them too.
    """

    name: Annotated[str, msgspec.Meta(pattern=rf"\A[A-Za-z_][A-Za-z0-9_]{{0,{NAME_CHARACTERS - 1}}}\Z")]
    repairs: Annotated[tuple[Literal["f-string braces"], ...], msgspec.Meta(max_length=1)] = ()
    tools: bool = False


class CallResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of a call; a refused one never reached the program."""

    text: str
    refused: bool


class ToolFunction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool: its name, its description, and the schema of its arguments."""

    name: Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]{0,63}\Z")]
    description: str
    parameters: dict[str, Any]


class OfferedTool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A tool as OpenAI's function object."""

    type: Literal["function"]
    function: ToolFunction


class Answered(ChildAnswer, frozen=True, tag="observed"):
    """The result of `reset`, `step` or a message; the reward is not bounded yet.

    Of a program with tools: its `tools` after `reset`, the `results` of a message's calls, and how many of its
    `instructions` are `done`, `free` of them met when they were given.
    """

    text: str
    reward: float
    terminated: bool
    truncated: bool
    results: tuple[CallResult, ...] = ()
    tools: tuple[OfferedTool, ...] = ()
    done: Instructions = 0
    instructions: Instructions = 0
    free: Instructions = 0


class Criterion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A criterion on the present state: it holds, raised `error`, changed the state."""

    met: bool
    error: str
    changes: bool


class Inspected(ChildAnswer, frozen=True, tag="inspected"):
    """A program with tools: its instructions, a criterion for each, and `state` in its canonical form (JSON).

    `done` instructions are done, `free` of them were met when they were given.
    """

    instructions: tuple[str, ...]
    criteria: tuple[Criterion, ...]
    state: str
    done: Instructions
    free: Instructions


class Solved(ChildAnswer, frozen=True, tag="solved"):
    """The actions that win, None where the solution is a description; of a program with tools the calls."""

    actions: tuple[str, ...] | None
    calls: tuple[tuple[str, str], ...] = ()


class ExecutionWanted(ChildAnswer, frozen=True, tag="wanted"):
    """Before it answers a step, a judging program wants this executed within `seconds`, with at most `most_bytes`."""

    code: str
    function: str
    given: str
    seconds: Annotated[float, msgspec.Meta(ge=0)]
    most_bytes: Annotated[int, msgspec.Meta(ge=0)]


class Executed(ChildAnswer, frozen=True, tag="executed"):
    """The output of an execution; None where the code raised."""

    output: str | None


class Blamed(ChildAnswer, frozen=True, tag="fault"):
    """The program failed in `stage`."""

    kind: Literal["exception", "protocol", "reward"]
    stage: Literal["parse", "class", "interface", "construct", "schema", "play"]
    detail: str


Request = LoadProgram | Reset | Step | Act | Inspect | Solve | Execute | Resume
Response = Loaded | Answered | Inspected | Solved | ExecutionWanted | Executed | Blamed

_responses: msgspec.json.Decoder[Response] = msgspec.json.Decoder(Response)


def pack(request: Request, nonce: str) -> bytes:
    """A request as a frame."""
    body = msgspec.json.encode({**msgspec.to_builtins(request), "nonce": nonce})
    return LENGTH.pack(len(body)) + body


def unpack(body: bytes) -> Response:
    """Raises UnreadableError on nonsense."""
    return decoded(_responses.decode, body)
