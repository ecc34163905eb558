"""The frames between the host and a child: what we ask, and the only answers we accept.

A frame is its length (little-endian uint32) and as much JSON; JSON because the child has the standard library alone. A
nonce names the request, so that an answer written in advance is no answer.
"""

from typing import Annotated, Literal

import msgspec

from actors.sandbox.inside.messages import LENGTH, NAME_CHARACTERS
from spade.decoding import decoded


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


class Solve(msgspec.Struct, frozen=True, tag_field="do", tag="solve"):
    """The reference solution of the instance. Answer: Solved."""


class ChildAnswer(msgspec.Struct, frozen=True, tag_field="is", forbid_unknown_fields=True):
    """Base of a child's answers."""

    nonce: str


class Loaded(ChildAnswer, frozen=True, tag="loaded"):
    """The `name` of the environment's class, and the `repairs` that the child made to the program's text.

    The bounds are those of `inside.program`; a forged answer must keep them too.
    """

    name: Annotated[str, msgspec.Meta(pattern=rf"\A[A-Za-z_][A-Za-z0-9_]{{0,{NAME_CHARACTERS - 1}}}\Z")]
    repairs: Annotated[tuple[Literal["f-string braces"], ...], msgspec.Meta(max_length=1)] = ()


class Answered(ChildAnswer, frozen=True, tag="observed"):
    """The result of `reset` or `step`; the reward is not bounded yet."""

    text: str
    reward: float
    terminated: bool
    truncated: bool


class Solved(ChildAnswer, frozen=True, tag="solved"):
    """The actions that win; None where the solution is a description."""

    actions: tuple[str, ...] | None


class Blamed(ChildAnswer, frozen=True, tag="fault"):
    """The program failed in `stage`."""

    kind: Literal["exception", "protocol", "reward"]
    stage: Literal["parse", "class", "interface", "construct", "play"]
    detail: str


Request = LoadProgram | Reset | Step | Solve
Response = Loaded | Answered | Solved | Blamed

_responses: msgspec.json.Decoder[Response] = msgspec.json.Decoder(Response)


def pack(request: Request, nonce: str) -> bytes:
    """A request as a frame."""
    body = msgspec.json.encode({**msgspec.to_builtins(request), "nonce": nonce})
    return LENGTH.pack(len(body)) + body


def unpack(body: bytes) -> Response:
    """Raises UnreadableError on nonsense."""
    return decoded(_responses.decode, body)
