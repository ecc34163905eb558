"""Load a run from its store, or begin a fresh one."""

import time
import tomllib
from typing import Any

import msgspec

from replay.ledger import audits, provenance, records
from replay.ledger.environment_memory import EnvironmentMemory
from replay.ledger.keys import LEVEL_PREFIX, make_batch_key, make_environment_prefix
from replay.ledger.state import CommandLimits, RunState
from replay.ledger.statistics import PLAYS, History, Statistics
from replay.store.store import Store
from spade.config import MEANING, RETIRED, Config, compute_digest, dump
from spade.errors import RunError
from spade.pools import Draws, LevelWindow, PoolList, SeedPool
from spade.protocol import LifeNumber, Recording
from spade.seeds import derive, draw_secret


class Header(msgspec.Struct):
    """A run's identity."""

    secret: bytes
    digest: str
    """Digest of the settings that may not change."""
    settings: str
    """All settings as TOML."""
    created: float
    """Start of the run, as Unix time."""
    corpus: str = ""
    """Digest of the run's documents, "" until it is known."""

    @property
    def id(self) -> str:
        """Return a unique name of the run that does not reveal its secret."""
        return f"{derive(self.secret, 'origin'):016x}"


class KnownLives(records.Record):
    """The newest life of each named process."""

    supervisors: int = 0
    """Number of supervisors that were given a number so far."""
    newest: dict[str, LifeNumber] = msgspec.field(default_factory=dict)
    """The newest life of each name. The process that started last is at the end."""


class LoadedRun(msgspec.Struct, frozen=True):
    """A loaded run."""

    state: RunState
    elapsed_s: float
    """The run clock when it was last committed."""
    resumed: bool
    """True if the store already had the run."""
    changed: dict[str, tuple[str, str]]
    """Settings that differ from the last start, as "section.field": (before, now)."""
    corpus: str = ""
    """Digest of the run's documents, "" until it is known."""


def open_run(store: Store, config: Config, corpus: str = "") -> LoadedRun:
    """Begin the run in an empty store, or load the run that is in the store.

    `corpus` is the digest of the documents that the run's designers have now. Raises RunError if the run was started
    with other documents, or with another value of a setting that may not change.
    """
    header = store.get("meta", "run", Header)
    settings = dump(config)
    if header is None:
        # Two runs with the same `run.seed` hand out the same work. Without a seed nobody can predict the work.
        seed = config.run.seed
        secret = draw_secret() if seed is None else derive(b"run", "secret", seed).to_bytes(8, "little")
        header = Header(secret, compute_digest(config), settings, time.time(), corpus)
        store.commit(store.encode([("meta", "run", header)]))
        return LoadedRun(RunState(config, secret), 0.0, False, {}, corpus)
    changed = _find_changes(header.settings, settings)
    if header.digest != compute_digest(config):
        named = [f"{key} ({old} -> {new})" for key, (old, new) in changed.items() if key.split(".")[0] in MEANING]
        raise RunError(
            f"{store.path}: this run was started with another [run], [model] or [reward]: "
            f"{', '.join(named) or 'defaults have changed'}; "
            "resume it as it was, or start a new run"
        )
    if corpus and header.corpus not in ("", corpus):
        raise RunError(
            f"{store.path}: this run was started with another corpus (digest {header.corpus[:8]}, design.corpus or "
            f"tools.settings has {corpus[:8]} now); restore the old corpus, or start a new run"
        )
    state = load(store, config, header.secret)
    now = msgspec.structs.replace(header, settings=settings, corpus=corpus or header.corpus)
    if now != header:
        state.touch("meta", "run", now)
    clock = store.get("meta", "clock", records.Clock) or records.Clock()
    return LoadedRun(state, clock.elapsed_s, True, changed, now.corpus)


def load(store: Store, config: Config, secret: bytes) -> RunState:
    """Load the live records of a run from its store."""
    state = RunState(config, secret)
    state.counters = store.get("meta", "counters", records.RunCounters) or state.counters
    state.history = store.get("meta", "history", History) or state.history
    state.command = store.get("meta", "command", CommandLimits)
    statistics = store.get("meta", "statistics", Statistics)
    if statistics is not None:
        state.statistics = msgspec.structs.replace(
            statistics, keep_plays=PLAYS, keep_slots=config.design.active_environments
        )
    design, remembered = config.design, store.scan("memory", records.MemoryEntry)
    state.memory = EnvironmentMemory(design.memory_records, remembered)
    if (seeds := store.get("meta", "seeds", SeedPool)) is not None:
        state.memory.begin_with(seeds.programs)
    if (pool := store.get("meta", "pool", PoolList)) is not None:
        windows = store.scan("meta", LevelWindow, prefix=LEVEL_PREFIX)
        state.take_pool(pool, store.get("meta", "draws", Draws), windows)
    for publication in store.scan("publications", records.Publication):
        provenance.note(state, publication.weights)
    for job in sorted(store.scan("jobs", records.Job), key=lambda job: job.number):
        if job.state in ("open", "leased"):
            state.add_job(job)
    for environment in store.scan("environments", records.Environment):
        if environment.state == "active":
            _load_environment(state, store, environment)
    groups = store.scan("design_groups", records.DesignGroup)
    state.design_groups = {group.id: group for group in groups if group.closed < group.jobs}
    state.queue = {group.order: group for group in store.scan("queue", records.GroupRecord)}
    state.quarantine = {key for key, _ in store.each("quarantine")}
    retired = make_batch_key(state.counters.retired_step + 1)
    state.batches = {batch.step: batch for batch in store.scan("batches", records.BatchRecord, start=retired)}
    return state


def _load_environment(state: RunState, store: Store, environment: records.Environment) -> None:
    state.add_environment(environment, store.get_many("sources", [environment.id], records.Source)[0])
    for chunk in environment.chunks:
        state.flight.open(environment, chunk)
    plays = store.scan("plays", records.PlayRecord, prefix=make_environment_prefix(environment.id))
    for play in sorted(plays, key=lambda play: (play.chunk, play.hinted, play.index)):
        state.add_play(play)
    for play in plays:
        if (recording := store.get("recordings", play.id, Recording)) is not None:
            state.recordings.setdefault(environment.id, {})[play.id] = recording
    if environment.audit is not None:
        audits.take_up(state, environment)


def _find_changes(before: str, now: str) -> dict[str, tuple[str, str]]:
    """Compare two configs as TOML. Returns (before, now) of each setting that differs, by "section.field"."""
    old, new = _list_settings(tomllib.loads(before)), _list_settings(tomllib.loads(now))
    keys = sorted(key for key in (old.keys() | new.keys()) - RETIRED.keys() if old.get(key) != new.get(key))
    return {key: (old.get(key, "unset"), new.get(key, "unset")) for key in keys}


def _list_settings(tree: dict[str, Any]) -> dict[str, str]:
    return {f"{section}.{key}": str(value) for section, table in tree.items() for key, value in table.items()}
