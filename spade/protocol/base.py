"""The common parts of all messages: their base, their bounds, and the words of their fields."""

from typing import Annotated, Generic, Literal, NamedTuple, TypeVar, get_args

import msgspec
from msgspec import Meta

Role = Literal[
    "replay", "learner", "engine", "endpoint", "env-runner", "designer", "curator", "agent", "evaluator", "gateway",
    "observer", "supervisor",
]  # fmt: skip
Outcome = Literal["terminated", "truncated", "fault"]
Finish = Literal["stop", "length"]
Form = Literal["inside", "box"]  # of an action sent to a program: the content of the model's box, or the box
Repair = Literal["f-string braces", "fences"]
ProcessState = Literal["waiting", "starting", "ready", "silent", "restarting", "draining", "stopped", "failed"]
# A container of small items is bounded, so that it takes little more memory than its bytes on the wire.
MOST_ITEMS, MOST_GAUGES, MOST_NAME, MOST_STOPS = 65_536, 256, 256, 16
MOST_CATEGORIES = 16  # of an evaluation: a status has hundreds of them
MOST_HELD, MOST_RETIRED = 64, 1_024  # folders of weights, in a message
MOST_ACTORS = 256  # most actors of a role that an order may ask for
MOST_HINT = 65_536  # characters of a hint; a message of leases holds several hints
MOST_CALLS = 64  # calls of one turn
MOST_ARGUMENTS = 65_536  # characters of a call's arguments
DIGEST_BYTES = 16
_T = TypeVar("_T")
Many = Annotated[tuple[_T, ...], Meta(max_length=MOST_ITEMS)]
Gauges = Annotated[dict[str, float], Meta(max_length=MOST_GAUGES)]
Name = Annotated[str, Meta(max_length=MOST_NAME)]
Count = Annotated[int, Meta(ge=0)]
Repairs = Annotated[tuple[Repair, ...], Meta(max_length=2)]  # of a program, before it is loaded


class LifeNumber(NamedTuple):
    """The number of a life of a named process; of two lives of a name the newer one has the greater number.

    supervisor  the number of the supervisor that started it, as the replay service counts them; 0: it was not counted
    start       1 for the first start of the name by that supervisor
    """

    supervisor: Count = 0
    start: Count = 0

    def __str__(self) -> str:
        return f"{self.supervisor}.{self.start}"

    def over(self, name: str, newer: "LifeNumber") -> str:
        """The reason why this life of `name` ends, in words."""
        return f"life {self} of {name} is over: life {newer} has taken its place"


class Wire(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of all messages, and of the values in them."""


Reply = TypeVar("Reply", bound=Wire)


class Request(Wire, Generic[Reply], frozen=True):
    """Base of all requests, with the type of their reply: `class GetStatus(Request[Status])`. Any may be Refused."""


def reply_type(kind: type[Request[Reply]]) -> type[Reply]:
    """The type of a request's reply; the union of its alternatives if it has several."""
    (base,) = vars(kind)["__orig_bases__"]
    (reply,) = get_args(base)
    return reply  # type: ignore[no-any-return]
