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
    """Name of the process that must act."""

    what: str
    """The result that the holder must bring, for example a batch."""

    count: int = 1
    """Number of such waits at the same time."""

    for_s: float = 0.0
    """Duration of the longest wait in seconds."""

    who: str = ""
    """Name of the waiting process. Empty in a heartbeat, which names its sender."""

    why: str = ""
    """The reason why the holder cannot act yet, if the replay service knows it."""


class Done(Wire, frozen=True):
    """The request took effect. At the replay service it is also committed."""


class Refused(Wire, frozen=True):
    """The request cannot be served. This is final: the sender does not try again."""

    reason: str
    """The reason, and advice on how to act."""

    unforeseen: bool = False
    """True if the service met an unforeseen error, so the request itself is under suspicion."""


class Ready(Wire, frozen=True):
    """The handshake is done."""

    peers: tuple[Peer, ...] = ()
    """As in Pulse."""

    weights: Weights | None = None
    """As in Pulse."""

    life: Name = ""
    """Name of the service's life, new after each restart."""

    finished: str = ""
    """As in Pulse."""


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
    """Digest of the documents from which the sender, or a process that it supervises, designs. "" without documents."""

    life: LifeNumber = LifeNumber()
    """Number of the sender's life. The replay service refuses a life after it has seen a newer life of the name."""


class Pulse(Wire, frozen=True):
    """The service is alive."""

    peers: tuple[Peer, ...] = ()
    """Services that may be called."""

    weights: Weights | None = None
    """The newest weights."""

    finished: str = ""
    """The limit that ended the run, in words, or "" while the run goes on."""


class Heartbeat(Request[Pulse], frozen=True):
    """Tell a service that the sender is alive."""

    gauges: Gauges = field(default_factory=dict)
    """Figures of the sending process. docs/metrics.md defines the names."""

    waits: Many[Wait] = ()
    """Everything that the sender waits for."""


class Goodbye(Request[Done], frozen=True):
    """Tell a service that the sender leaves in order."""


class Rehello(Wire, frozen=True):
    """The server does not know this peer: it restarted, or it gave the peer up.

    The peer then sends Hello again, followed by its open requests.
    """

    leaving: bool = False
    """True if the server was told to stop. Then no open request has crashed it."""
