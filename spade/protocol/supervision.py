"""Messages between supervisors, observers and the replay service."""

from msgspec import field

from spade.protocol.base import Gauges, Many, Name, ProcessState, Request, Role, Wire
from spade.protocol.session import Done


class Process(Wire, frozen=True):
    """A process as its supervisor sees it."""

    name: str
    """Name of the process."""

    role: Role
    """Role of the process."""

    pid: int
    """Process id on its machine."""

    state: ProcessState
    """State of the process."""

    restarts: int
    """Number of restarts."""

    detail: str = ""
    """The reason for its last end. For a waiting process, the thing that it waits for."""

    gauges: Gauges = field(default_factory=dict)
    """Gauges of its last heartbeat to the replay service."""

    supervisor: str = ""
    """Name of its supervisor."""

    host: str = ""
    """Machine of the cluster on which the process runs. "" means the supervisor's machine."""


class Enrolled(Wire, frozen=True):
    """The number of a supervisor."""

    number: int
    """A number greater than the number of any earlier supervisor of this run."""


class Enroll(Request[Enrolled], frozen=True):
    """Ask for a supervisor's number, before it starts processes.

    The lives of its processes carry the number (`LifeNumber`).
    """


class Orders(Request[Done], frozen=True):
    """Changes for a supervisor. The replay service passes them on in its answer to the supervisor's next report.

    The request is refused if the named supervisor does not exist or keeps no actors. Orders are kept only in memory.
    The sender watches the status, and repeats an order that did not take effect.
    """

    supervisor: str
    """Name of the supervisor."""

    counts: dict[Role, int] = field(default_factory=dict)
    """Number of actors to keep up, by role."""

    drain: tuple[str, ...] = ()
    """Names of the actors to drain."""

    stop: bool = False
    """True to drain all processes and leave. Only the replay service sends this, after a `StopRun`."""


class StopRun(Request[Done], frozen=True):
    """Have every supervisor drain its processes and leave. The replay service's own supervisor leaves last.

    Refused: no supervisor is connected. Like Orders, the request is kept only in memory.
    """


class ReportProcesses(Request[Orders], frozen=True):
    """Report a supervisor's processes. The answer has orders for the supervisor."""

    supervisor: Name
    """Name of the supervisor."""

    processes: Many[Process]
    """Its child processes."""

    wanted: dict[Role, int] | None = None
    """Number of actors of each role that it keeps up, or None if it keeps no actors."""
