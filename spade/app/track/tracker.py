"""A tracker: gives a run's records to a sink, and remembers the position at which it stopped.

The position is saved after the sink has committed the records. If a tracker is killed between these two steps, the next
one gives the records to the sink again. The sink keeps them once.
"""

import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import trio
from msgspec import Meta, structs

from spade.app.rundir import RunDir
from spade.app.track.records import Position, RecordBatch, read_batch
from spade.app.track.sink import REREADING, Memory, Sink, SinkPlace, open_sink
from spade.config import TrackerChoice, TrackerKind
from spade.decoding import UnreadableError, try_decode
from spade.disk import add_filename, read, replace
from spade.errors import RunError
from spade.locks import hold_lock

POLL_S = 1.0
"""Seconds between two looks at the journal."""

log = logging.getLogger(__name__)


class TrackerState(msgspec.Struct, frozen=True):
    """The state of a tracker after a commit, saved as `track/KIND.json` in the run directory."""

    position: Position = Position()
    """The position in the journal after the last record that the sink has committed."""

    memory: Memory = {}
    """The sink's memory."""

    id: Annotated[str, Meta(pattern=r"^[0-9a-f]*\Z")] = ""
    """Id of the run in the tool."""


_states: msgspec.json.Decoder[TrackerState] = msgspec.json.Decoder(TrackerState)


class Tracker:
    """Gives the records of one run to one sink."""

    def __init__(self, run: RunDir, kind: TrackerKind, sink: Sink, state: TrackerState) -> None:
        self.shown = sink.shown
        self.tracked = 0
        """Number of records given to the sink since the start."""
        self.position = state.position
        self._run = run
        self._file = _state_file(run, kind)
        self._id = state.id
        self._sink = sink

    def advance(self) -> bool:
        """Give the next batch of records to the sink. Returns False without new records. Raises OSError, RunError."""
        try:
            batch = read_batch(self._run.metrics_path, self.position)
        except FileNotFoundError:
            if self.position.bytes:
                raise
            batch = RecordBatch([], 0, self.position)  # the run has just been made
        if batch.after == self.position:
            return False
        if batch.unreadable:
            log.warning("%s: %d lines are not records and are left out", self._run.metrics_path, batch.unreadable)
        with add_filename(self._file.with_suffix("")):
            for record in batch.records:
                self._sink.write(record)
            memory = self._sink.commit()
        state = TrackerState(batch.after, memory, self._id)
        replace(self._file, msgspec.json.encode(state))
        self.position = batch.after
        self.tracked += len(batch.records)
        return True


@contextmanager
def tracker(run: RunDir, choice: TrackerChoice) -> Iterator[Tracker]:
    """Open the tracker of a run. It continues after the last record that its sink has.

    Raises ConfigError if the sink's package is missing. Raises RunError if the run has another tracker of this kind
    now, if the sink's data do not fit its state, or if a folder of the run is a link.
    """
    kind = choice.kind
    file = _state_file(run, kind)
    run.refuse_links()
    file.parent.mkdir(exist_ok=True)
    with hold_lock(
        file.with_suffix(".lock"),
        lambda holder: f"{run.path}: has a tracker of {kind} already ({holder}); end that tracker first",
    ):
        state = _read_state(run, kind)
        if not state.id:
            state = structs.replace(state, id=secrets.token_hex(8))
            # Save the id first, so that a tool gets the same id again after a kill.
            replace(file, msgspec.json.encode(state))
        if kind in REREADING:
            state = TrackerState(id=state.id)
        place = SinkPlace(run, state.id, file.with_suffix(""), state.memory, choice.port)
        with open_sink(kind, place) as sink:
            yield Tracker(run, kind, sink, state)


@trio.lowlevel.enable_ki_protection
async def follow(tracker: Tracker, goes_on: Callable[[], bool]) -> None:
    """Track new records until `goes_on()` is False, or until cancelled. In both cases, track the rest first.

    Ctrl-C ends the tracking between two batches of records.
    """
    while True:
        last = not goes_on()
        while tracker.advance():
            await trio.lowlevel.checkpoint()
        if last:
            return
        try:
            await trio.sleep(POLL_S)
        except trio.Cancelled:
            while tracker.advance():
                pass
            raise


def _state_file(run: RunDir, kind: TrackerKind) -> Path:
    return run.path / "track" / f"{kind}.json"


def _read_state(run: RunDir, kind: TrackerKind) -> TrackerState:
    file = _state_file(run, kind)
    try:
        return try_decode(_states.decode, read(file))
    except FileNotFoundError:
        return TrackerState()
    except UnreadableError as error:
        raise RunError(
            f"{file}: is damaged ({error}); delete it and {file.with_suffix('')} to track the run from its beginning"
        ) from None
