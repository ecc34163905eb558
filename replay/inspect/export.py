"""Convert a store's tables to plain rows for other tools."""

from collections.abc import Iterator
from typing import Any

import msgspec

from replay.ledger import records
from replay.store import Store
from spade.codec import convert_to_named, unpack_floats, unpack_ids, unpack_mask
from spade.protocol import DIGEST_BYTES, Recording, ToolCall, Trajectory


class TrajectoryRow(msgspec.Struct):
    """A trajectory with its tokens as numbers and its digests in hex."""

    ids: list[int]
    mask: list[int]
    """1 if the token was sampled, else 0."""
    logprobs: list[float]
    """Log-probabilities of the sampled tokens."""
    versions: tuple[tuple[int, int], ...]
    temperature: float
    digests: list[str]
    rewinds: tuple[tuple[int, int], ...]
    """Pairs (at, kept): before token `at` was read, the context was cut back to its first `kept` tokens."""


class QuarantinedRow(msgspec.Struct):
    """A row of the quarantine, with the fields of `QuarantineRecord`."""

    holder: str
    why: str
    at: float
    trajectory: TrajectoryRow


class RecordingRow(msgspec.Struct):
    """A recording with the fields of `Recording`, its digests in hex."""

    actions: tuple[str, ...]
    answers: list[str]
    max_turns: int
    calls: tuple[tuple[ToolCall, ...], ...]
    """The tool calls that were sent with each action. Empty if no action had any."""


# The table "meta" is left out: it holds the run's secret, from which a program's later instances could be computed.
TABLES: dict[records.Table, type[msgspec.Struct]] = {
    "jobs": records.Job,
    "rejects": records.Reject,
    "environments": records.Environment,
    "sources": records.Source,
    "plays": records.PlayRecord,
    "trajectories": TrajectoryRow,
    "design_groups": records.DesignGroup,
    "queue": records.GroupRecord,
    "batches": records.BatchRecord,
    "memory": records.MemoryEntry,
    "publications": records.Publication,
    "quarantine": QuarantinedRow,
    "recordings": RecordingRow,
}

_STORED: dict[type[msgspec.Struct], type[msgspec.Struct]] = {
    TrajectoryRow: Trajectory,
    QuarantinedRow: records.QuarantineRecord,
    RecordingRow: Recording,
}


def read_rows(store: Store, table: records.Table) -> Iterator[dict[str, Any]]:
    """Yield each record of a table as a dict of its fields, in the order of the keys.

    Nested records are dicts as well. The field `key` has the record's key.
    """
    kind = TABLES[table]
    stored = _STORED.get(kind, kind)
    for key, record in store.decoded(table, stored):
        yield {"key": key, **convert_to_named(convert_row(record))}


def convert_row(record: msgspec.Struct) -> msgspec.Struct:
    match record:
        case Trajectory():
            return _unpack_numbers(record)
        case records.QuarantineRecord():
            return QuarantinedRow(record.holder, record.why, record.at, _unpack_numbers(record.trajectory))
        case Recording():
            return RecordingRow(record.actions, _split_digests(record.answers), record.max_turns, record.calls)
    return record


def _unpack_numbers(trajectory: Trajectory) -> TrajectoryRow:
    return TrajectoryRow(
        ids=unpack_ids(trajectory.ids).tolist(),
        mask=unpack_mask(trajectory).tolist(),
        logprobs=unpack_floats(trajectory.logprobs).tolist(),
        versions=trajectory.versions,
        temperature=trajectory.temperature,
        digests=_split_digests(trajectory.digests),
        rewinds=trajectory.rewinds,
    )


def _split_digests(packed: bytes) -> list[str]:
    return [packed[at : at + DIGEST_BYTES].hex() for at in range(0, len(packed), DIGEST_BYTES)]
