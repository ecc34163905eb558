"""The interface of a tracker's sink, and the kinds of sinks."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from spade import extras
from spade.app.track.records import JournalRecord
from spade.config import Track, TrackerKind

Memory = dict[str, int | str]
"""Facts that a sink needs to continue its data. They are saved with the position in the journal."""


class Sink(Protocol):
    """Takes the records of one run.

    A tracker that is killed gives the records since the last commit again. The sink's data must then hold them once.
    """

    shown: str
    """Tells a person in one line how to see the data."""

    def write(self, record: JournalRecord) -> None:
        """Take one record."""

    def commit(self) -> Memory:
        """Keep the records taken so far, even if this process is killed now. Returns the sink's memory."""

    def close(self) -> None:
        """Close the sink after its last commit."""


class SinkPlace(NamedTuple):
    """The place of a sink's data, and the settings."""

    run: str
    """Name of the run."""

    folder: Path
    """Folder for the sink's data in the run directory. It may not exist yet."""

    memory: Memory
    """The memory of the last commit. Empty at the first start."""

    settings: Track
    """The settings of trackers."""


SERVING: tuple[TrackerKind, ...] = ("prometheus",)
"""Kinds that hold their data in this process: they read the whole journal at each start, and serve until stopped."""


@contextmanager
def open_sink(kind: TrackerKind, place: SinkPlace) -> Iterator[Sink]:
    """Open a sink, and close it after the block. Raises ConfigError, with advice, if its package is missing."""
    extras.require(kind)
    sink: Sink
    match kind:
        case "tensorboard":
            from spade.app.track.tensorboard import TensorBoardSink

            sink = TensorBoardSink(place)
        case "prometheus":
            from spade.app.track.prometheus import PrometheusSink

            sink = PrometheusSink(place)
    try:
        yield sink
    finally:
        sink.close()
