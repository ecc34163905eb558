"""Read the contents of a store at one commit, without texts and tokens, for verification."""

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
from spade.progress import follow
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
    """Facts about a trajectory's tokens."""

    sampled: int
    """Number of sampled tokens."""
    versions: frozenset[int]
    """The policy versions that sampled tokens."""
    oldest: int
    """The oldest of these versions; 0 without a sampled token."""
    flaw: str
    """The fault in the trajectory's provenance, or ""."""


@dataclass
class StoreContents:
    """The tables of a store, each as a dict by key. Damaged records are left out."""

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
    memory: dict[str, records.MemoryEntry] = field(default_factory=dict)
    publications: dict[str, records.Publication] = field(default_factory=dict)
    quarantine: dict[str, str] = field(default_factory=dict)
    """For each quarantined trajectory, the fault in its provenance."""
    recordings: dict[str, Recording] = field(default_factory=dict)
    pool: PoolList | None = None
    draws: Draws = field(default_factory=Draws)
    windows: dict[str, LevelWindow] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    """One line for each damaged record."""

    @cached_property
    def dropped(self) -> frozenset[str]:
        """Return the trajectories of the oldest batches, which retention deleted or is about to delete."""
        old = [batch for batch in self.batches.values() if batch.step <= self.counters.dropped_step]
        return frozenset(member.trajectory for batch in old for group in batch.groups for member in group.members)

    def groups(self) -> Iterator[tuple[records.BatchRecord | None, records.GroupRecord]]:
        """Yield every trainable group with the batch that took it. The batch is None for a group in the queue."""
        for batch in self.batches.values():
            yield from ((batch, group) for group in batch.groups)
        yield from ((None, group) for group in self.queue.values())

    def chunks(self) -> dict[tuple[str, int], list[records.PlayRecord]]:
        """Return the plays of each chunk in the order of their ids, by (environment, index of the chunk)."""
        found: dict[tuple[str, int], list[records.PlayRecord]] = {}
        for play in self.plays.values():
            found.setdefault((play.environment, play.chunk), []).append(play)
        return found


def read_contents(store: Store) -> StoreContents:
    """Read the contents of one commit."""
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
        found.memory = dict(store.decoded("memory", records.MemoryEntry, bad))
        found.publications = dict(store.decoded("publications", records.Publication, bad))
        for key, reject in store.decoded("rejects", records.Reject, bad):
            found.rejects[key] = msgspec.structs.replace(reject, completion="")
        found.sources = {key for key, _ in store.decoded("sources", records.Source, bad)}
        bad += store.miscounted()
        published = {one.weights.version: one.weights.digest for one in found.publications.values()}
        steps = {one.weights.version: one.weights.step for one in found.publications.values()}
        count = store.extents()["trajectories"].records
        for key, trajectory in follow(store.decoded("trajectories", Trajectory, bad), "trajectories", count):
            versions = frozenset(version for version, _ in trajectory.versions)
            flaw = provenance.describe_flaw(published, trajectory)
            oldest = min(versions, default=0) if flaw else provenance.find_oldest(steps, trajectory)
            found.trajectories[key] = StoredTokens(trajectory.sampled, versions, oldest, flaw)
        found.recordings = dict(store.decoded("recordings", Recording, bad))
        for key, kept in store.decoded("quarantine", records.QuarantineRecord, bad):
            found.quarantine[key] = provenance.describe_flaw(published, kept.trajectory)
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
