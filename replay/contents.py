"""All that a store holds, as one commit left it, but for texts and tokens: what is looked at when a run is verified."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeVar

import msgspec

from replay import receipts
from replay.loading import Header
from replay.records import (
    BatchRecord,
    Clock,
    Counters,
    DesignGroup,
    Environment,
    Group,
    Job,
    Play,
    Publication,
    Quarantined,
    Reject,
    Remembered,
    Source,
)
from replay.state import Table
from replay.statistics import History, Statistics
from replay.store import Format, Store
from spade.protocol import Recording, Trajectory

META: dict[str, type[msgspec.Struct]] = {
    "format": Format,
    "run": Header,
    "counters": Counters,
    "statistics": Statistics,
    "history": History,
    "clock": Clock,
}

Value = TypeVar("Value", bound=msgspec.Struct)


class Tokens(NamedTuple):
    """Of a trajectory: its sampled tokens, the versions that sampled them, the oldest of those (0 for none).

    `flaw` is what is wrong with its receipts, "" where nothing is.
    """

    sampled: int
    versions: frozenset[int]
    oldest: int
    flaw: str


@dataclass
class Contents:
    """Tables by key; of the quarantine, what is wrong with each receipt.

    `undecodable` names what could not be read, so that it is nowhere else.
    """

    header: Header | None = None
    counters: Counters = field(default_factory=Counters)
    jobs: dict[str, Job] = field(default_factory=dict)
    rejects: dict[str, Reject] = field(default_factory=dict)
    environments: dict[str, Environment] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)
    plays: dict[str, Play] = field(default_factory=dict)
    trajectories: dict[str, Tokens] = field(default_factory=dict)
    design_groups: dict[str, DesignGroup] = field(default_factory=dict)
    queue: dict[str, Group] = field(default_factory=dict)
    batches: dict[str, BatchRecord] = field(default_factory=dict)
    memory: dict[str, Remembered] = field(default_factory=dict)
    publications: dict[str, Publication] = field(default_factory=dict)
    quarantine: dict[str, str] = field(default_factory=dict)
    recordings: dict[str, Recording] = field(default_factory=dict)
    undecodable: list[str] = field(default_factory=list)

    @cached_property
    def dropped(self) -> frozenset[str]:
        """Trajectories that retention deleted, or is about to: those of the oldest batches."""
        old = [batch for batch in self.batches.values() if batch.step <= self.counters.dropped_step]
        return frozenset(member.trajectory for batch in old for group in batch.groups for member in group.members)

    def groups(self) -> Iterator[tuple[BatchRecord | None, Group]]:
        """Every trainable group there is, with the batch that took it (None: it waits in the queue)."""
        for batch in self.batches.values():
            yield from ((batch, group) for group in batch.groups)
        yield from ((None, group) for group in self.queue.values())

    def chunks(self) -> dict[tuple[str, int], list[Play]]:
        """Plays by environment and chunk, in the order of their ids."""
        found: dict[tuple[str, int], list[Play]] = {}
        for play in self.plays.values():
            found.setdefault((play.environment, play.chunk), []).append(play)
        return found


def read_contents(store: Store) -> Contents:
    """Everything, of one commit."""
    found = Contents()
    bad = found.undecodable
    with store.pinned():
        for key, data in store.each("meta"):
            _, record = next(_decode("meta", [(key, data)], META.get(key, msgspec.Struct), bad), ("", None))
            match record:
                case Header():
                    found.header = record
                case Counters():
                    found.counters = record
        found.jobs = dict(_table(store, "jobs", Job, bad))
        found.environments = dict(_table(store, "environments", Environment, bad))
        found.plays = dict(_table(store, "plays", Play, bad))
        found.design_groups = dict(_table(store, "design_groups", DesignGroup, bad))
        found.queue = dict(_table(store, "queue", Group, bad))
        found.batches = dict(_table(store, "batches", BatchRecord, bad))
        found.memory = dict(_table(store, "memory", Remembered, bad))
        found.publications = dict(_table(store, "publications", Publication, bad))
        for key, reject in _table(store, "rejects", Reject, bad):
            found.rejects[key] = msgspec.structs.replace(reject, completion="")
        found.sources = {key for key, _ in _table(store, "sources", Source, bad)}
        bad += store.broken()
        published = {one.weights.version: one.weights.digest for one in found.publications.values()}
        steps = {one.weights.version: one.weights.step for one in found.publications.values()}
        for key, trajectory in _table(store, "trajectories", Trajectory, bad):
            versions = frozenset(version for version, _ in trajectory.versions)
            flaw = receipts.flaw(published, trajectory)
            oldest = min(versions, default=0) if flaw else receipts.oldest(steps, trajectory)
            found.trajectories[key] = Tokens(trajectory.sampled, versions, oldest, flaw)
        found.recordings = dict(_table(store, "recordings", Recording, bad))
        for key, kept in _table(store, "quarantine", Quarantined, bad):
            found.quarantine[key] = receipts.flaw(published, kept.trajectory)
    return found


def _table(store: Store, table: Table, kind: type[Value], bad: list[str]) -> Iterator[tuple[str, Value]]:
    return _decode(table, store.each(table), kind, bad)


def _decode(
    table: Table, records: Iterator[tuple[str, bytes]] | list[tuple[str, bytes]], kind: type[Value], bad: list[str]
) -> Iterator[tuple[str, Value]]:
    decoder = msgspec.msgpack.Decoder(kind)
    for key, data in records:
        try:
            yield key, decoder.decode(data)
        except msgspec.DecodeError as error:
            bad.append(f"{table} {key}: cannot be decoded ({error})")
