"""A store's tables as plain rows, for other tools."""

from collections.abc import Iterator
from typing import Any

import msgspec

from replay.records import (
    BatchRecord,
    DesignGroup,
    Environment,
    Group,
    Job,
    Play,
    Publication,
    Reject,
    Remembered,
    Source,
)
from replay.state import Table
from replay.store import Store
from spade.codec import unpack_floats, unpack_ids, unpack_mask
from spade.protocol import Trajectory


class TrajectoryRow(msgspec.Struct):
    """A trajectory with its tokens as numbers. `mask`: 1 where a token was sampled; `logprobs`: of the sampled ones."""

    ids: list[int]
    mask: list[int]
    logprobs: list[float]
    versions: tuple[tuple[int, int], ...]
    temperature: float


# Not "meta": it holds the run's secret, from which the instances of its programs can be told beforehand.
TABLES: dict[Table, type[msgspec.Struct]] = {
    "jobs": Job,
    "rejects": Reject,
    "environments": Environment,
    "sources": Source,
    "plays": Play,
    "trajectories": TrajectoryRow,
    "design_groups": DesignGroup,
    "queue": Group,
    "batches": BatchRecord,
    "memory": Remembered,
    "publications": Publication,
}


def rows(store: Store, table: Table) -> Iterator[dict[str, Any]]:
    """The records of a table by field name, nested ones too, in the order of their keys; `key` is the record's own."""
    kind = TABLES[table]
    decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(Trajectory if kind is TrajectoryRow else kind)
    for key, data in store.each(table):
        record = decoder.decode(data)
        yield {"key": key, **named(_numbers(record) if isinstance(record, Trajectory) else record)}


def _numbers(trajectory: Trajectory) -> TrajectoryRow:
    return TrajectoryRow(
        ids=unpack_ids(trajectory.ids).tolist(),
        mask=unpack_mask(trajectory).tolist(),
        logprobs=unpack_floats(trajectory.logprobs).tolist(),
        versions=trajectory.versions,
        temperature=trajectory.temperature,
    )


def named(value: Any) -> Any:
    """Structs as dicts by field name, however deep: in the store they rest as arrays."""
    if isinstance(value, msgspec.Struct):
        return {name: named(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, list | tuple) and value and not isinstance(value[0], int | float):
        return [named(item) for item in value]
    return value
