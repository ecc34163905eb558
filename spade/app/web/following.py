"""A run as the live page sees it. Every refresh reads what the run has saved since the last refresh."""

import os
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from replay.inspect.designs import DesignRecords
from replay.inspect.journal import JournalRows
from replay.ledger.keys import make_environment_id, make_version_key
from replay.ledger.records import Environment, Job, Publication
from replay.store import Store, is_short, open_reader
from spade.app.report.collect import SavedRun, describe_state, read_rows, try_or_note
from spade.app.rundir import RunDir
from spade.app.screen.verdict import judge_run
from spade.app.web.lanes import Sample, take_sample
from spade.errors import RunError
from spade.protocol import Status

MOST_SAMPLES = 300


class FollowedRun:
    """One run, read again and again by one thread at a time."""

    def __init__(self, run: RunDir, name: str) -> None:
        self.run, self.name = run, name
        self.config = run.config()
        self.samples: deque[Sample] = deque(maxlen=MOST_SAMPLES)
        """The newest samples of the processes' phases, which the run itself does not save."""
        self.environments: dict[str, Environment] = {}
        """All environments, the oldest first."""
        self.digest = ""
        """Digest of the newest published weights. "" before the first publication."""
        self._first_job = ""  # the oldest job that may still bring an environment
        self._steps: dict[int, int] = {}
        self._reopened = False  # True if the store was opened anew, so that earlier reads no longer count
        self._rows = JournalRows()
        self._key: tuple[object, ...] | None = None
        self._journal: object = None
        self._files = ExitStack()
        self._store: Store | None = None
        self._opened: object = None
        self.seen: SavedRun
        """The run as the last refresh saw it."""
        self.refresh("its status was not read yet", 0.0)

    def refresh(self, status: Status | str, now: float) -> bool:
        """Read the run. Returns False if nothing changed since the last time. `status` is the result of
        `try_read_status`."""
        if isinstance(status, Status) and self.run.holders():
            self.samples.append(take_sample(now, status))
        journal, data = _stamp(self.run.metrics_path), _stamp(self.run.store / "data.mdb")
        settings = _stamp(self.run.config_path)
        key = status, journal, data, settings
        if key == self._key:
            return False
        notes = [status] if isinstance(status, str) else []
        if self._key is not None and settings != self._key[-1]:
            self.config = try_or_note(notes, self.run.config) or self.config
        self._key = key
        if journal != self._journal or not journal:
            self._rows = try_or_note(notes, partial(read_rows, self.run)) or JournalRows()
            self._journal = journal
        try_or_note(notes, self._read_store)
        verdict = "" if isinstance(status, str) else judge_run(status).text
        designs = DesignRecords(tuple(self.environments.values()), steps=self._steps, digest=self.digest)
        self.seen = SavedRun(
            self.name, describe_state(self.run, status, self._rows), verdict, self.config,
            try_or_note(notes, self.run.record), None if isinstance(status, str) else status, self._rows, designs,
            (), {}, {}, tuple(notes),
        )  # fmt: skip
        return True

    @contextmanager
    def reading(self) -> Iterator[Store]:
        """Yield the run's store, pinned at one commit. Raises RunError.

        The store stays open between two reads, because opening checks all of it. If its file was replaced or cut short
        since the last read, the store is opened again.
        """
        data = self.run.store / "data.mdb"
        stamp = os.stat(data).st_ino if data.exists() else None
        if self._store is None or stamp != self._opened or is_short(data):
            self.close()
            self._store, self._opened = self._files.enter_context(open_reader(self.run.store)), stamp
            self._reopened = True
        with ExitStack() as stack:
            try:
                stack.enter_context(self._store.pinned())
            except RunError:  # the file was overwritten: open it again, which checks it
                self.close()
                raise
            yield self._store

    def close(self) -> None:
        """Close the store."""
        self._store = None
        self._files.close()

    def _read_store(self) -> None:
        """Read the environments that are new or may have changed, and the new publications."""
        with self.reading() as store:
            if self._reopened:  # the store was compacted, or the folder holds another run now
                self.environments, self._first_job, self._steps, self.digest = {}, "", {}, ""
                self._reopened = False
            jobs = store.scan("jobs", Job, start=self._first_job)
            unfinished = [job for job in jobs if job.state in ("open", "leased")]
            active = [id for id, each in self.environments.items() if each.state == "active"]
            start = min([make_environment_id(job) for job in jobs[:1]] + active[:1], default="")
            found = {each.id: each for each in store.scan("environments", Environment, start=start)}
            self.environments = dict(sorted((self.environments | found).items()))
            self._first_job = (unfinished or jobs[-1:])[0].id if jobs else ""
            newest = make_version_key(max(self._steps, default=0))
            for publication in store.scan("publications", Publication, start=newest):
                self._steps[publication.weights.version] = publication.weights.step
                self.digest = publication.weights.digest


def _stamp(file: os.PathLike[str]) -> tuple[int, int] | None:
    """Return the size and the time of the last change of a file. Returns None without the file."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
