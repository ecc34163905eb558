"""Write two files in the run directory for people and their tools: `metrics.jsonl` and `status.json`."""

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from replay.service.status import make_metrics_row
from spade.disk import is_out_of_descriptors, open_to_append, refuse_irregular, replace
from spade.errors import format_reason
from spade.protocol import Diversity, Evaluation, Status

log = logging.getLogger(__name__)


class Journal:
    """The two files of a run. Rows are appended and flushed one by one, so that a kill can only cut the last row."""

    def __init__(self, run: Path) -> None:
        self._metrics = run / "metrics.jsonl"
        self._status = run / "status.json"
        refuse_irregular(self._metrics)
        if _read_last_byte(self._metrics) not in (b"", b"\n"):
            self._append(b"")  # a killed service left half a row: end this row

    def event(
        self, event: str, elapsed_s: float, changed: dict[str, tuple[str, str]] | None = None, why: str = ""
    ) -> None:
        """Write an event of the run. `changed`: settings that differ from before, as "section.field": [before, now]."""
        self._write_row({"kind": "event", "event": event, "elapsed_s": elapsed_s, "changed": changed or {}, "why": why})

    def step(self, status: Status, processes: dict[str, dict[str, float]]) -> None:
        """Write one learner step. `processes`: the gauges of each process's last heartbeat, by its name."""
        self._write_row({"kind": "step", **make_metrics_row(status), "process_gauges": processes})
        self.status(status)

    def evaluation(self, evaluation: Evaluation, elapsed_s: float) -> None:
        """Write one evaluation."""
        self._write_row({"kind": "evaluation", "elapsed_s": elapsed_s, **msgspec.structs.asdict(evaluation)})

    def diversity(self, diversity: Diversity, elapsed_s: float) -> None:
        """Write one measurement of the diversity."""
        self._write_row({"kind": "diversity", "elapsed_s": elapsed_s, **msgspec.structs.asdict(diversity)})

    def status(self, status: Status) -> None:
        """Write the status, which `spade status` shows while the run is down. Replaces the file whole or not at all."""
        with _skip_if_out_of_descriptors(self._status):
            replace(self._status, msgspec.json.encode(status))

    def _write_row(self, row: dict[str, object]) -> None:
        with _skip_if_out_of_descriptors(self._metrics):
            self._append(msgspec.json.encode({"time": time.time(), **row}))

    def _append(self, line: bytes) -> None:
        with open_to_append(self._metrics) as file:
            file.write(line + b"\n")


@contextmanager
def _skip_if_out_of_descriptors(path: Path) -> Iterator[None]:
    """Skip writing the file if descriptors run out. Peers can cause this, so it must not crash the service."""
    try:
        yield
    except OSError as error:
        if not is_out_of_descriptors(error):
            raise
        log.error("%s is not written: %s; too many connections are open", path, format_reason(error))


def _read_last_byte(path: Path) -> bytes:
    """Return the last byte of a file. Empty if the file is empty or missing."""
    try:
        with path.open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - 1, 0))
            return file.read()
    except FileNotFoundError:
        return b""
