"""The common parts of all messages: the base class, the bounds, and the types of common fields."""

from typing import Annotated, Generic, Literal, NamedTuple, TypeVar, get_args

import msgspec
from msgspec import Meta

Role = Literal[
    "replay", "learner", "engine", "endpoint", "env-runner", "designer", "curator", "agent", "evaluator", "gateway",
    "observer", "supervisor", "tracker",
]  # fmt: skip
Outcome = Literal["terminated", "truncated", "fault"]
Finish = Literal["stop", "length"]
Form = Literal["inside", "box"]  # a program reads the content of the model's `\boxed{…}`, or the whole `\boxed{…}`
Repair = Literal["f-string braces", "fences"]
ProcessState = Literal["waiting", "starting", "ready", "silent", "restarting", "draining", "stopped", "failed"]
# Greatest lengths of fields. Without them, a small message could decode into very many items and fill the memory.
MOST_ITEMS, MOST_GAUGES, MOST_NAME, MOST_STOPS = 65_536, 256, 256, 16
MOST_CATEGORIES = 16  # categories of one evaluation; a status holds hundreds of evaluations
MOST_HELD, MOST_RETIRED = 64, 1_024  # digests of weights in a HoldWeights, and in a RetireWeights
MOST_ACTORS = 256  # actors of one role that an order may ask for
MOST_HINT = 65_536  # characters of one hint; a message of leases holds several hints
MOST_CALLS = 64  # tool calls of one turn
MOST_ARGUMENTS = 65_536  # characters of a call's arguments
DIGEST_BYTES = 16
_T = TypeVar("_T")
Many = Annotated[tuple[_T, ...], Meta(max_length=MOST_ITEMS)]
Gauges = Annotated[dict[str, float], Meta(max_length=MOST_GAUGES)]
Name = Annotated[str, Meta(max_length=MOST_NAME)]
Count = Annotated[int, Meta(ge=0)]
Repairs = Annotated[tuple[Repair, ...], Meta(max_length=2)]  # repairs of a program before it is loaded


class LifeNumber(NamedTuple):
    """The number of a life: one start of a named process, up to its end. A newer life has a greater number."""

    supervisor: Count = 0
    """Number of the supervisor that started the process, drawn from the replay service (`Enroll`). 0 if the supervisor
    drew no number."""

    start: Count = 0
    """Number of this start among all starts of the same name by this supervisor, from 1."""

    def __str__(self) -> str:
        return f"{self.supervisor}.{self.start}"

    def over(self, name: str, newer: "LifeNumber") -> str:
        """Explain why this life of `name` ends: a newer life has taken its place."""
        return f"life {self} of {name} is over: life {newer} has taken its place"


class Wire(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of all messages and of the values in messages."""


Reply = TypeVar("Reply", bound=Wire)


class Request(Wire, Generic[Reply], frozen=True):
    """Base of all requests. Its parameter is the type of the reply: `class GetStatus(Request[Status])`.

    Any request may also be answered with Refused.
    """


def reply_type(kind: type[Request[Reply]]) -> type[Reply]:
    """Return the type of a request's reply. If a request has several kinds of reply, return their union."""
    (base,) = vars(kind)["__orig_bases__"]
    (reply,) = get_args(base)
    return reply  # type: ignore[no-any-return]
