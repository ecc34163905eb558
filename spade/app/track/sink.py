"""The interface of a tracker's sink, and the kinds of sinks."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from spade import extras
from spade.app.rundir import RunDir
from spade.app.track.records import Count, JournalRecord
from spade.config import TrackerKind, list_published_settings
from spade.disk import add_filename
from spade.errors import ConfigError
from spade.text import as_line

PROJECT = "spade"
"""Name of the project or experiment of runs in a tool, unless the tool's own environment variable names another."""

Memory = dict[str, Count]
"""Facts that a sink needs to continue its data. They are saved with the position in the journal."""


class Sink(Protocol):
    """Takes the records of one run.

    After a kill, the next tracker gives the records since the last commit again. The sink must keep each record once.
    """

    shown: str
    """Tells a person in one line how to see the data."""

    def write(self, record: JournalRecord) -> None:
        """Take one record."""

    def commit(self) -> Memory:
        """Keep the records taken so far, even if this process is killed now. Returns the sink's memory.

        By default this does nothing. That is enough if `write` has stored the record, or if the next tracker gives all
        records again.
        """
        return {}

    def close(self) -> None:
        """Close the sink after its last commit."""


class SinkPlace(NamedTuple):
    """The places of a sink's data and of its server."""

    run: RunDir
    """The run. Its name in the tool is the name of its directory."""

    id: str
    """Id of the run in the tool: a random hexadecimal number. It stays the same over the tracker's restarts."""

    folder: Path
    """Folder for the sink's data in the run directory. It may not exist yet."""

    memory: Memory
    """The memory of the last commit. Empty at the first start."""

    port: int
    """The port of a sink that serves its data (`SERVING`). Other sinks ignore it."""

    @property
    def name(self) -> str:
        """Return the name of the run."""
        return self.run.path.name

    def list_settings(self) -> dict[str, Any]:
        """Return the run's settings that say what was trained, by path: "learner.lr"."""
        return list_published_settings(self.run.config())


def choose_mode(variable: str) -> str:
    """Return "online", "offline", or "" if the environment variable is not set. Raises ConfigError for other modes."""
    mode = os.environ.get(variable, "")
    if mode not in ("", "online", "offline"):
        raise ConfigError(f"{variable} = {as_line(mode, 60)}: unknown mode; set online or offline")
    return mode


SERVING: tuple[TrackerKind, ...] = ("prometheus",)
"""Kinds that serve their data from this process until they are stopped."""

REREADING: tuple[TrackerKind, ...] = (*SERVING, "wandb", "swanlab")
"""Kinds that read the whole journal at each start, because a kill loses records that the tool had not written."""


@contextmanager
def open_sink(kind: TrackerKind, place: SinkPlace) -> Iterator[Sink]:
    """Open a sink, and close it after the block. Raises ConfigError, with advice, if its package is missing."""
    extras.require(kind)
    with add_filename(place.folder):
        sink = _make_sink(kind, place)
    try:
        yield sink
    finally:
        with add_filename(place.folder):
            sink.close()


def _make_sink(kind: TrackerKind, place: SinkPlace) -> Sink:
    """Make a sink. Imports its package."""
    match kind:
        case "tensorboard":
            from spade.app.track.tensorboard import TensorBoardSink

            return TensorBoardSink(place)
        case "prometheus":
            from spade.app.track.prometheus import PrometheusSink

            return PrometheusSink(place)
        case "wandb":
            from spade.app.track.wandb import WandbSink

            return WandbSink(place)
        case "mlflow":
            from spade.app.track.mlflow import MlflowSink

            return MlflowSink(place)
        case "trackio":
            from spade.app.track.trackio import TrackioSink

            return TrackioSink(place)
        case "swanlab":
            from spade.app.track.swanlab import SwanlabSink

            return SwanlabSink(place)
