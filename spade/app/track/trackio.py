"""Trackio: rows in its SQLite file of the project, below TRACKIO_DIR.

If Trackio gets a row with the same id again, it keeps only one. So after a kill, the next tracker may give records
again.
"""

import os
import sqlite3
from datetime import UTC, datetime

from trackio.sqlite_storage import TRACKIO_DIR, SQLiteStorage

from spade.app.track.records import JournalRecord
from spade.app.track.sink import PROJECT, Memory, SinkPlace
from spade.errors import RunError


class TrackioSink:
    """Writes figures named `KIND/FIGURE` by learner step. An event is a row with a text."""

    def __init__(self, place: SinkPlace) -> None:
        self._project = os.environ.get("TRACKIO_PROJECT", PROJECT)
        self._place = place
        self._records: list[JournalRecord] = []
        self.shown = f"`trackio show --project {self._project}` shows it"

    def write(self, record: JournalRecord) -> None:
        """See `Sink`."""
        self._records.append(record)

    def commit(self) -> Memory:
        """See `Sink`."""
        try:
            SQLiteStorage.bulk_log(
                self._project,
                self._place.name,
                [{**each.named_figures, **({each.kind: each.text} if each.text else {})} for each in self._records],
                [each.step for each in self._records],
                [datetime.fromtimestamp(each.time, UTC).isoformat() for each in self._records],
                self._place.list_settings(),
                [f"{self._place.id}/{each.number}" for each in self._records],
                run_id=self._place.id,
            )
        except sqlite3.Error as error:
            raise RunError(f"{TRACKIO_DIR}: Trackio cannot write to it ({error})") from None
        self._records.clear()
        return {}

    def close(self) -> None:
        """See `Sink`."""
