"""Every connection: the handshake, heartbeats, and the answers that any request may get."""

from msgspec import field

from spade.protocol.base import Gauges, LifeNumber, Many, Name, Request, Role, Wire


class Peer(Wire, frozen=True):
    """A service that others may call."""

    role: Role
    name: str
    address: str


class Weights(Wire, frozen=True):
    """Published parameters: a folder on the learner's host, named by their digest (`spade.policy.manifest`, hex)."""

    version: int
    step: int
    digest: str
    path: str


class Wait(Wire, frozen=True):
    """`who` waits for `holder` to bring `what`: `count` times at once, the longest for `for_s` seconds.

    `why`: what the holder lacks, if the replay service knows. `who` is empty in a heartbeat, which names its sender.
    """

    holder: str
    what: str
    count: int = 1
    for_s: float = 0.0
    who: str = ""
    why: str = ""


class Done(Wire, frozen=True):
    """The request took effect and, at the replay service, is committed."""


class Refused(Wire, frozen=True):
    """The request cannot be served; the text says why and what to do. Final: the sender does not try again.

    `unforeseen`: the service met an unforeseen error, so the request itself is under suspicion.
    """

    reason: str
    unforeseen: bool = False


class Ready(Wire, frozen=True):
    """The handshake is done. `life` names the service's life, new after each restart; other fields as in Pulse."""

    peers: tuple[Peer, ...] = ()
    weights: Weights | None = None
    life: Name = ""
    finished: str = ""


class Hello(Request[Ready], frozen=True):
    """First message on every connection. `address` is where this process serves others.

    `corpus`: digest of the documents from which this process designs, or the processes it keeps; "" where none does.
    `life`: the replay service refuses a life of a name once it has seen a newer one.
    """

    protocol: int
    digest: Name
    role: Role
    name: Name
    pid: int
    address: Name | None = None
    corpus: Name = ""
    life: LifeNumber = LifeNumber()


class Pulse(Wire, frozen=True):
    """The service is alive. Names the services that may be called, and the newest weights.

    `finished`: the limit that has ended the run, in words; "" while it goes on.
    """

    peers: tuple[Peer, ...] = ()
    weights: Weights | None = None
    finished: str = ""


class Heartbeat(Request[Pulse], frozen=True):
    """I am alive. `gauges` are this process's own figures (names in `docs/metrics.md`)."""

    gauges: Gauges = field(default_factory=dict)
    waits: Many[Wait] = ()


class Goodbye(Request[Done], frozen=True):
    """A peer that leaves in order."""


class Rehello(Wire, frozen=True):
    """The server does not know this peer (it restarted, or gave it up): say hello again, then send what is open.

    `leaving`: pushed by a server that ends in order; the requests that it leaves open did not cause its end.
    """

    leaving: bool = False
