"""Messages between the ranks of a learner. The first rank commands, and the others ask it for the next command."""

from typing import Annotated

from msgspec import Meta

from spade.protocol.base import Count, Name, Request, Wire
from spade.protocol.session import Done
from spade.protocol.training import Batch


class Meet(Wire, frozen=True):
    """Join the process group of `torch.distributed`. The first rank serves the group's TCP store at this address."""

    host: Name
    """Host of the TCP store."""

    port: Annotated[int, Meta(ge=1, le=65_535)]
    """Port of the TCP store."""

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
    """Ask for the next command. Idempotent by `number`.

    If the reply is a `Batch`, the rank takes part in this learner step. If it is `Done`, the rank exits.
    """

    rank: Count
    """Number of the asking rank."""

    number: Count
    """Number of commands that the rank has carried out."""
