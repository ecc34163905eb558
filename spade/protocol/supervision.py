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
    """The reason why the process last ended. If the process waits before its start: what it waits for."""

    gauges: Gauges = field(default_factory=dict)
    """Gauges of the last heartbeat that the replay service got from the process."""

    supervisor: str = ""
    """Name of its supervisor."""

    host: str = ""
    """Machine of the cluster on which the process runs. "" means the supervisor's machine."""


class Enrolled(Wire, frozen=True):
    """The number of a supervisor."""

    number: int
    """A number greater than the number of any earlier supervisor of this run."""


class Enroll(Request[Enrolled], frozen=True):
    """Ask for a number for a supervisor, before it starts processes.

    The number is part of each process's `LifeNumber`.
    """


class Orders(Request[Done], frozen=True):
    """Orders for a supervisor. The replay service passes them on in its answer to the supervisor's next report.

    The reply is `Refused` if the named supervisor does not exist or keeps no actors. Orders are kept only in memory, so
    a restart of the replay service loses them. The sender watches the status and repeats lost orders.
    """

    supervisor: str
    """Name of the supervisor."""

    counts: dict[Role, int] = field(default_factory=dict)
    """Number of actors to keep up, by role."""

    drain: tuple[str, ...] = ()
    """Names of the actors to drain."""

    stop: bool = False
    """True to drain all processes and then exit. Only the replay service sets this, after a `StopRun`."""


class StopRun(Request[Done], frozen=True):
    """Let every supervisor drain its processes and exit. The replay service's own supervisor exits last.

    The reply is `Refused` if no supervisor is connected. The request is kept only in memory, like `Orders`.
    """


class ReportProcesses(Request[Orders], frozen=True):
    """Report a supervisor's processes. The answer has orders for the supervisor."""

    supervisor: Name
    """Name of the supervisor."""

    processes: Many[Process]
    """Processes that the supervisor started."""

    wanted: dict[Role, int] | None = None
    """Number of actors that the supervisor keeps up, by role, or None if it keeps no actors."""
