"""The contents of a store at one commit, without texts and tokens: the input of verification."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import msgspec

from replay.ledger import provenance, records
from replay.ledger.keys import LEVEL_PREFIX
from replay.ledger.state import CommandLimits
from replay.ledger.statistics import History, Statistics
from replay.store import Commit, Format, Store
from replay.store.load import Header, KnownLives
from spade.pools import Draws, LevelWindow, PoolList, SeedPool
from spade.protocol import Recording, Trajectory

META: dict[str, type[msgspec.Struct]] = {
    "format": Format,
    "commit": Commit,
    "run": Header,
    "counters": records.RunCounters,
    "statistics": Statistics,
    "history": History,
    "clock": records.Clock,
    "command": CommandLimits,
    "lives": KnownLives,
    "pool": PoolList,
    "seeds": SeedPool,
    "draws": Draws,
}


class StoredTokens(NamedTuple):
    """Of a trajectory: its sampled tokens, the versions that sampled them, the oldest of those (0 for none).

    `flaw` is the fault of its provenance, "" if there is none.
    """

    sampled: int
    versions: frozenset[int]
    oldest: int
    flaw: str


@dataclass
class StoreContents:
    """Tables by key; of the quarantine, the fault of each trajectory's provenance.

    `damaged` names the records that differ from what was committed; no table has them.
    """

    header: Header | None = None
    counters: records.RunCounters = field(default_factory=records.RunCounters)
    jobs: dict[str, records.Job] = field(default_factory=dict)
    rejects: dict[str, records.Reject] = field(default_factory=dict)
    environments: dict[str, records.Environment] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)
    plays: dict[str, records.PlayRecord] = field(default_factory=dict)
    trajectories: dict[str, StoredTokens] = field(default_factory=dict)
    design_groups: dict[str, records.DesignGroup] = field(default_factory=dict)
    queue: dict[str, records.GroupRecord] = field(default_factory=dict)
    batches: dict[str, records.BatchRecord] = field(default_factory=dict)
    memory: dict[str, records.Remembered] = field(default_factory=dict)
    publications: dict[str, records.Publication] = field(default_factory=dict)
    quarantine: dict[str, str] = field(default_factory=dict)
    recordings: dict[str, Recording] = field(default_factory=dict)
    pool: PoolList | None = None
    draws: Draws = field(default_factory=Draws)
    windows: dict[str, LevelWindow] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)

    @cached_property
    def dropped(self) -> frozenset[str]:
        """Trajectories that retention deleted, or is about to: those of the oldest batches."""
        old = [batch for batch in self.batches.values() if batch.step <= self.counters.dropped_step]
        return frozenset(member.trajectory for batch in old for group in batch.groups for member in group.members)

    def groups(self) -> Iterator[tuple[records.BatchRecord | None, records.GroupRecord]]:
        """Every trainable group, with the batch that took it (None: it waits in the queue)."""
        for batch in self.batches.values():
            yield from ((batch, group) for group in batch.groups)
        yield from ((None, group) for group in self.queue.values())

    def chunks(self) -> dict[tuple[str, int], list[records.PlayRecord]]:
        """Plays by environment and chunk, in the order of their ids."""
        found: dict[tuple[str, int], list[records.PlayRecord]] = {}
        for play in self.plays.values():
            found.setdefault((play.environment, play.chunk), []).append(play)
        return found


def read_contents(store: Store) -> StoreContents:
    """The contents of one commit."""
    found = StoreContents()
    bad = found.damaged
    with store.pinned():
        for key, data in store.each("meta", bad):
            _read_meta(found, key, data)
        found.jobs = dict(store.decoded("jobs", records.Job, bad))
        found.environments = dict(store.decoded("environments", records.Environment, bad))
        found.plays = dict(store.decoded("plays", records.PlayRecord, bad))
        found.design_groups = dict(store.decoded("design_groups", records.DesignGroup, bad))
        found.queue = dict(store.decoded("queue", records.GroupRecord, bad))
        found.batches = dict(store.decoded("batches", records.BatchRecord, bad))
        found.memory = dict(store.decoded("memory", records.Remembered, bad))
        found.publications = dict(store.decoded("publications", records.Publication, bad))
        for key, reject in store.decoded("rejects", records.Reject, bad):
            found.rejects[key] = msgspec.structs.replace(reject, completion="")
        found.sources = {key for key, _ in store.decoded("sources", records.Source, bad)}
        bad += store.miscounted()
        published = {one.weights.version: one.weights.digest for one in found.publications.values()}
        steps = {one.weights.version: one.weights.step for one in found.publications.values()}
        for key, trajectory in store.decoded("trajectories", Trajectory, bad):
            versions = frozenset(version for version, _ in trajectory.versions)
            flaw = provenance.flaw(published, trajectory)
            oldest = min(versions, default=0) if flaw else provenance.oldest(steps, trajectory)
            found.trajectories[key] = StoredTokens(trajectory.sampled, versions, oldest, flaw)
        found.recordings = dict(store.decoded("recordings", Recording, bad))
        for key, kept in store.decoded("quarantine", records.Quarantined, bad):
            found.quarantine[key] = provenance.flaw(published, kept.trajectory)
    return found


def _read_meta(found: StoreContents, key: str, data: bytes) -> None:
    kind = LevelWindow if key.startswith(LEVEL_PREFIX) else META.get(key, msgspec.Struct)
    try:
        record = msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        found.damaged.append(f"meta {key}: cannot be decoded ({error})")
        return
    match record:
        case Header():
            found.header = record
        case records.RunCounters():
            found.counters = record
        case PoolList():
            found.pool = record
        case Draws():
            found.draws = record
        case LevelWindow():
            found.windows[record.name] = record
