"""Supervisors, observers and the replay service."""

from msgspec import field

from spade.protocol.base import Gauges, Many, Name, ProcessState, Request, Role, Wire
from spade.protocol.session import Done


class Process(Wire, frozen=True):
    """A process as its supervisor sees it; `gauges` are those of its last heartbeat to the replay service.

    `detail`: the reason of its last end; of one that is waiting, what it waits for. `host`: the machine of its cluster
    that it runs on, "" for that of its supervisor.
    """

    name: str
    role: Role
    pid: int
    state: ProcessState
    restarts: int
    detail: str = ""
    gauges: Gauges = field(default_factory=dict)
    supervisor: str = ""
    host: str = ""


class Enrolled(Wire, frozen=True):
    """The number of a supervisor: greater than that of any before it in this run."""

    number: int


class Enroll(Request[Enrolled], frozen=True):
    """A supervisor begins to start processes, and wants the number that their lives carry (`LifeNumber`)."""


class Orders(Request[Done], frozen=True):
    """Changes for a supervisor: the number of actors of a role to keep up, and the names of those to drain.

    Sent to the replay service (Refused: no such supervisor keeps actors), which passes it on with the answer to the
    supervisor's next report. Kept in memory alone: the sender watches the status, and repeats an order without effect.
    `stop`: drain all processes and leave; the replay service alone says so, after a `StopRun`.
    """

    supervisor: str
    counts: dict[Role, int] = field(default_factory=dict)
    drain: tuple[str, ...] = ()
    stop: bool = False


class StopRun(Request[Done], frozen=True):
    """Have every supervisor drain its processes and leave, that of the replay service last.

    Refused: none is here. Kept in memory alone, as Orders are.
    """


class ReportProcesses(Request[Orders], frozen=True):
    """A supervisor's children, and how many actors of each role it keeps up (None: none at all)."""

    supervisor: Name
    processes: Many[Process]
    wanted: dict[Role, int] | None = None
