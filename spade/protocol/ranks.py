"""The ranks of a learner: the first one commands, the others ask it for their next command."""

from typing import Annotated

from msgspec import Meta

from spade.protocol.base import Count, Name, Request, Wire
from spade.protocol.session import Done
from spade.protocol.training import Batch


class Meet(Wire, frozen=True):
    """Join the process group whose store the first rank serves at this TCP address.

    `device`: the type of device that all ranks compute on.
    """

    host: Name
    port: Annotated[int, Meta(ge=1, le=65_535)]
    device: Name


class Gather(Wire, frozen=True):
    """Bring your part of the parameters, and of the optimiser's state if `optimizer`, to the first rank."""

    optimizer: bool


class Save(Wire, frozen=True):
    """Write your part of the parameters and of the optimiser's state below `folder`, a checkpoint being made."""

    folder: str


class Load(Wire, frozen=True):
    """Continue from the checkpoint in `folder`."""

    folder: str


class AwaitCommand(Request[Meet | Batch | Gather | Save | Load | Done], frozen=True):
    """Rank `rank` has carried out `number` commands, and waits for the next.

    Idempotent by number. A Batch is a step to take part in; Done ends the rank.
    """

    rank: Count
    number: Count
