"""Messages of every connection: the handshake, heartbeats, and the answers that any request may get."""

from msgspec import field

from spade.protocol.base import Gauges, LifeNumber, Many, Name, Request, Role, Wire


class Peer(Wire, frozen=True):
    """A service that others may call."""

    role: Role
    """Role of the service."""

    name: str
    """Name of the service's process."""

    address: str
    """Address at which the service listens."""


class Weights(Wire, frozen=True):
    """Published parameters."""

    version: int
    """Policy version."""

    step: int
    """Learner step after which the weights were published."""

    digest: str
    """Digest of the parameters in hex, as in `spade.policy.manifest`."""

    path: str
    """Folder on the learner's host."""


class Wait(Wire, frozen=True):
    """One process waits for another process."""

    holder: str
    """Name of the process that is waited for."""

    what: str
    """Result that the holder must deliver, for example a batch."""

    count: int = 1
    """Number of such waits at the same time."""

    for_s: float = 0.0
    """Duration of the longest wait in seconds."""

    who: str = ""
    """Name of the waiting process. "" in a heartbeat, because its sender is the waiting process."""

    why: str = ""
    """The reason why the holder cannot act yet, if the replay service knows it."""


class Done(Wire, frozen=True):
    """The request took effect. At the replay service it is also committed."""


class Refused(Wire, frozen=True):
    """The request cannot be served. The sender must not repeat it."""

    reason: str
    """The reason, and advice on how to act."""

    unforeseen: bool = False
    """True if the service met an unforeseen error, which the request itself may have caused."""


class Ready(Wire, frozen=True):
    """The handshake is done."""

    peers: tuple[Peer, ...] = ()
    """Services that may be called."""

    weights: Weights | None = None
    """The newest weights, or None if the service knows none."""

    life: Name = ""
    """Random name of this start of the service. A restarted service has a new name."""

    finished: str = ""
    """The limit that ended the run, in words, or "" while the run goes on."""


class Hello(Request[Ready], frozen=True):
    """Greet a service. This is the first message on every connection."""

    protocol: int
    """PROTOCOL_VERSION of the sender."""

    digest: Name
    """Digest of the sender's configuration. An observer may send "" instead."""

    role: Role
    """Role of the sender."""

    name: Name
    """Name of the sender's process."""

    pid: int
    """Process id of the sender."""

    address: Name | None = None
    """Address at which the sender serves others, or None."""

    corpus: Name = ""
    """Digest of the documents that ground designs of the sender or its child processes, or "" without documents."""

    life: LifeNumber = LifeNumber()
    """Number of the sender's life. The replay service refuses a process if it knows a newer life of the same name."""


class Pulse(Wire, frozen=True):
    """The service is alive."""

    peers: tuple[Peer, ...] = ()
    """Services that may be called."""

    weights: Weights | None = None
    """The newest weights, or None if the service knows none."""

    finished: str = ""
    """The limit that ended the run, in words, or "" while the run goes on."""


class Heartbeat(Request[Pulse], frozen=True):
    """Tell a service that the sender is alive."""

    gauges: Gauges = field(default_factory=dict)
    """Figures of the sending process. docs/metrics.md defines the names."""

    waits: Many[Wait] = ()
    """Everything that the sender waits for."""


class Goodbye(Request[Done], frozen=True):
    """Tell a service that the sender closes the connection as planned, not by a crash."""


class Rehello(Wire, frozen=True):
    """The server does not know this peer, because the server restarted or disconnected the peer.

    The peer then sends `Hello` again, followed by its open requests.
    """

    leaving: bool = False
    """True if the server stops because it was told to, so no open request is suspected of having crashed it."""
