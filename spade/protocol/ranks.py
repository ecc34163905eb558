"""Messages between the ranks of a learner. The first rank commands, and the others ask it for the next command."""

from typing import Annotated

from msgspec import Meta

from spade.protocol.base import Count, Name, Request, Wire
from spade.protocol.session import Done
from spade.protocol.training import Batch


class Meet(Wire, frozen=True):
    """Join the learner's process group. The first rank serves its store at this TCP address."""

    host: Name
    """Host of the store."""

    port: Annotated[int, Meta(ge=1, le=65_535)]
    """TCP port of the store."""

    device: Name
    """Type of device on which all ranks compute."""


class Gather(Wire, frozen=True):
    """Send your part of the parameters to the first rank."""

    optimizer: bool
    """True to send your part of the optimiser's state too."""


class Save(Wire, frozen=True):
    """Write your part of the parameters and of the optimiser's state."""

    folder: str
    """Folder of the unfinished checkpoint to write into."""


class Load(Wire, frozen=True):
    """Continue from a checkpoint."""

    folder: str
    """Folder of the checkpoint."""


class AwaitCommand(Request[Meet | Batch | Gather | Save | Load | Done], frozen=True):
    """Ask for the next command. Idempotent by number.

    A Batch is a step to take part in. Done ends the rank.
    """

    rank: Count
    """Number of the asking rank."""

    number: Count
    """Number of commands that the rank has carried out."""
