"""Settings of the bus between processes, and of their supervision."""

from typing import Annotated

from msgspec import Meta

from spade.config.sections.bounds import Bytes, CountOrZero, Seconds, Section

LONGEST_WAIT_S = 3_600.0  # of a request for work


class Bus(Section, frozen=True):
    """Beats, silences and sizes of connections, and the address and keys of a run on several machines."""

    heartbeat_s: Seconds = 1.0
    """Seconds between two signs of life of a process."""

    silence_s: Seconds = 10.0
    """Seconds after which a silent peer is given up and its leases end; more than two heartbeats."""

    call_deadline_s: Annotated[float, Meta(gt=0, le=LONGEST_WAIT_S)] = 60.0
    """Seconds until an unanswered call fails. The bound is the longest that a request for work may wait."""

    max_message_bytes: Bytes = 67_108_864
    """Bytes of one message (64 MiB). The largest is a batch on its way to the learner; a config whose batches could be
    larger is refused."""

    bind: str = ""
    """Address tcp://HOST:PORT at which the replay service listens. Engines and env-runners take free ports of the same
    host. "" keeps all sockets in the run directory."""

    keys: str = ""
    """Key folder (`spade keys new`), needed beyond this machine; a relative path becomes absolute."""


class Supervise(Section, frozen=True):
    """The care of processes: restarts, and the time that starting and ending may take."""

    restarts: CountOrZero = 20
    """Restarts of a process within ten minutes; one more death ends the run with its reason."""

    ready_s: Seconds = 600.0
    """Seconds within which a starting process must be ready. A failed start is noticed at once, so this bounds one that
    hangs; vLLM on busy cores takes over three minutes."""

    drain_s: Seconds = 10.0
    """Seconds within which a process must end when it is asked to; then it is killed."""
