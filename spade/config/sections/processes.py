"""Settings of the bus between processes, and of their supervision."""

import re
from typing import Annotated, Literal, NamedTuple, get_args

from msgspec import Meta

from spade.config.sections.bounds import Bytes, CountOrZero, Seconds, Section
from spade.errors import ConfigError
from spade.text import as_line

LONGEST_WAIT_S = 3_600.0  # longest time that a request for work may wait until there is work
MOST_PORT = 65_535

TrackerKind = Literal["tensorboard", "wandb", "mlflow", "trackio", "swanlab", "prometheus"]
"""The tools to which trackers give the figures of a run. Each is the name of an extra."""
TRACKER_KINDS: tuple[TrackerKind, ...] = get_args(TrackerKind)


class TrackerChoice(NamedTuple):
    """A tracker as a person writes it: KIND, or prometheus:PORT."""

    kind: TrackerKind
    """The tool."""

    port: int = 9464
    """The port on 127.0.0.1 at which prometheus serves. 0 takes any free port."""

    @classmethod
    def parse(cls, option: str, text: str) -> "TrackerChoice":
        """Parse the text of an option or setting. Raises ConfigError, which names the `option`."""
        name, colon, port = text.partition(":")
        kind = next((known for known in TRACKER_KINDS if known == name), None)
        if kind is None:
            raise ConfigError(
                f"{option} {as_line(name, 60)!r}: unknown tracker; take one of {', '.join(TRACKER_KINDS)}"
            )
        if not colon:
            return cls(kind)
        if kind != "prometheus" or not re.fullmatch("[0-9]{1,5}", port) or int(port) > MOST_PORT:
            raise ConfigError(f"{option} {as_line(text, 60)!r}: write prometheus:PORT; no other tracker has a port")
        return cls(kind, int(port))


class Bus(Section, frozen=True):
    """Heartbeats, timeouts and message sizes of connections, and the address and keys of a run on several machines."""

    heartbeat_s: Seconds = 1.0
    """Seconds between two heartbeats of a process."""

    silence_s: Seconds = 10.0
    """Seconds without a message after which a peer is disconnected and its leases end. Must be over two heartbeats."""

    call_deadline_s: Annotated[float, Meta(gt=0, le=LONGEST_WAIT_S)] = 60.0
    """Seconds until an unanswered call fails. The upper bound is the longest wait of a request for work."""

    max_message_bytes: Bytes = 67_108_864
    """Largest size of a message in bytes (64 MiB). The largest messages are batches for the learner. A config is
    refused if a batch could be larger."""

    bind: str = ""
    """Address tcp://HOST:PORT at which the replay service listens. Engines and env-runners take free ports of the same
    host. "" keeps all sockets in the run directory."""

    keys: str = ""
    """Folder of keys (`spade keys new`). It is needed if other machines join. A relative path becomes absolute."""


class Supervise(Section, frozen=True):
    """Supervision of processes: restarts, and the time that a process has to start and to end."""

    restarts: CountOrZero = 20
    """Most restarts of a process within ten minutes. If it dies once more, the run ends with the reason."""

    ready_s: Seconds = 600.0
    """Seconds within which a starting process must be ready. A failed start is noticed immediately, so this only
    bounds a start that hangs. vLLM on busy cores takes over three minutes."""

    drain_s: Seconds = 10.0
    """Seconds within which a process must end when it is asked to. After that it is killed."""


class Track(Section, frozen=True):
    """Trackers give the figures of a run to other tools (docs/tracking.md). No part of the run waits for them."""

    to: tuple[str, ...] = ()
    """The tools that get the figures of the run. `spade up` runs a tracker for each tool. Each tool is an extra of the
    package. `prometheus` serves at port 9464 of 127.0.0.1, and `prometheus:PORT` at another port. Port 0 takes any free
    port, which the tracker's log names."""

    @property
    def choices(self) -> tuple[TrackerChoice, ...]:
        """The trackers of `to`. Raises ConfigError for a text that does not name a tracker."""
        return tuple(TrackerChoice.parse("track.to:", text) for text in self.to)
