"""The run in memory: its live records, and the changes to be written next.

Only live records are held:

* open jobs, unformed designer groups, the queue, and batches not yet retired
* active environments with their plays, and the recordings that an audit would run again
* the env memory and the statistics
* the digests and steps of published weights, and the keys of the quarantine

The store has everything else. Trajectories are never held: they are staged and leave with the next commit.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from replay.ledger.environment_memory import EnvironmentMemory
from replay.ledger.in_flight import Flight, Leases
from replay.ledger.keys import make_level_key
from replay.ledger.records import (
    Audit,
    BatchRecord,
    Change,
    DesignGroup,
    Environment,
    GroupRecord,
    Job,
    PlayRecord,
    Record,
    RunCounters,
    Source,
    Table,
)
from replay.ledger.statistics import History, Statistics
from spade.codec import compute_program_digest
from spade.config import Config, Limits
from spade.pools import Drawing, Draws, Levels, LevelWindow, PoolList
from spade.protocol import Recording
from spade.seeds import INSTANCE_MASK, derive


class CommandLimits(Record):
    """The limits of the `spade up` that last started the run, and the point from which they count.

    The next command replaces them. If the replay service restarts within the same command, it goes on counting from
    the same point.
    """

    command: str
    """A random name of the command."""
    limits: Limits
    """The limits that the command was given."""
    begun_s: float
    """The run clock at the command's start."""
    begun_unhinted: int
    """Unhinted plays that had finished at the command's start."""
    begun_step: int | None = None
    """The step before the first batch that the learner asked for; None until it asks."""


class RunState:
    """The tables by id. Call `touch` after each change of a record. `changes` returns the records to commit."""

    def __init__(self, config: Config, secret: bytes) -> None:
        self.config = config
        self.secret = secret
        self.counters = RunCounters()
        self.command: CommandLimits | None = None  # None if the command that serves the run gave no limit
        self.statistics = Statistics.of(config.design)
        self.history = History()
        self.memory = EnvironmentMemory(config.design.memory_records)
        self.jobs: dict[str, Job] = {}
        self.job_leases: Leases[Job] = Leases(lambda job: (job.number,))
        self.environments: dict[str, Environment] = {}
        self.sources: dict[str, Source] = {}
        self.programs: dict[str, str] = {}  # the digest of each active environment's program
        self.plays: dict[str, PlayRecord] = {}
        self.design_groups: dict[str, DesignGroup] = {}
        self.queue: dict[int, GroupRecord] = {}
        self.batches: dict[int, BatchRecord] = {}
        self.published: dict[int, str] = {}  # digest by version
        self.steps: dict[int, int] = {}  # learner step by version
        self.flight = Flight(self.steps, self._draw_place)
        self.recordings: dict[str, dict[str, Recording]] = {}  # recordings of each active environment, by play
        self.audits: dict[str, Audit] = {}  # audits that are not over, by environment
        self.audit_leases: Leases[Audit] = Leases(lambda audit: (audit.began_at, audit.id))
        self.quarantine: set[str] = set()
        self.pool: Drawing | None = None  # the order in which a run with design.source "pool" draws programs
        self.levels: Levels | None = None  # the windows of levels, used by pool.difficulty "window"
        self._changes: dict[tuple[Table, str], msgspec.Struct | None] = {}

    # ------------------------------------------------------------ writing

    def touch(self, table: Table, key: str, record: msgspec.Struct) -> None:
        """Mark a record to be written. `changes` takes it in the state that it then has."""
        self._changes[table, key] = record

    def delete(self, table: Table, key: str) -> None:
        """Mark a record to be deleted."""
        self._changes[table, key] = None

    def changes(self) -> list[Change]:
        """Take the changes since the last call. If there is any, counters and statistics are added."""
        if not self._changes:
            return []
        self.touch("meta", "counters", self.counters)
        self.touch("meta", "statistics", self.statistics)
        taken = [(table, key, record) for (table, key), record in self._changes.items()]
        self._changes = {}
        return taken

    # ------------------------------------------------------------ jobs and plays

    def take_pool(self, pool: PoolList, draws: Draws | None, windows: Iterable[LevelWindow] = ()) -> None:
        """Make the run play the programs of a pool. Drawing continues from these draws and windows of levels."""
        self.pool = Drawing(pool, lambda number, index: self.seed("pool", number, index), draws)
        if self.config.pool.difficulty == "window":
            self.levels = Levels(self.config.pool, pool, self._keep_window, windows)

    def _keep_window(self, window: LevelWindow) -> None:
        self.touch("meta", make_level_key(window.name), window)

    def programs_in_use(self) -> set[str]:
        """Return the pool's programs that an open job or an active environment uses."""
        jobs, environments = self.jobs.values(), self.environments.values()
        return {job.program for job in jobs} | {environment.program for environment in environments}

    def add_job(self, job: Job) -> None:
        """Add an open job."""
        self.jobs[job.id] = job
        self.job_leases.add(job)

    def close_job(self, job: Job, state: Literal["admitted", "failed"]) -> None:
        """Remove a job from memory; the store keeps it."""
        self.job_leases.drop(job)
        job.state = state
        del self.jobs[job.id]

    def add_play(self, play: PlayRecord) -> None:
        """Add a play of an open chunk."""
        self.plays[play.id] = play
        self.flight.enter(play)

    def add_environment(self, environment: Environment, source: Source) -> None:
        """Add an active environment with its program."""
        self.environments[environment.id] = environment
        self.sources[environment.id] = source
        self.programs[environment.id] = compute_program_digest(source.source)

    def forget_environment(self, environment: Environment) -> None:
        """Remove a closed environment and its plays from memory. The store keeps them, but not the recordings."""
        for play in self.flight.forget(environment):
            del self.plays[play.id]
        for play_id in self.recordings.pop(environment.id, {}):
            self.delete("recordings", play_id)
        del self.environments[environment.id]
        del self.sources[environment.id]
        del self.programs[environment.id]

    def program(self, digest: str) -> str | None:
        """Return the program with a digest, or None if no active environment has it."""
        having = (self.sources[id].source for id, own in self.programs.items() if own == digest)
        return next(having, None)

    # ------------------------------------------------------------ versions and seeds

    @property
    def version(self) -> int:
        """Return the newest published policy version; 0 before the first."""
        newest = self.counters.newest
        return 0 if newest is None else newest.weights.version

    @property
    def published_step(self) -> int:
        """Return the learner step after which the newest version was published; 0 before the first."""
        newest = self.counters.newest
        return 0 if newest is None else newest.weights.step

    def version_at(self, step: int) -> int:
        """Return the version that learner step `step` is trained at: the newest, plus the publications due by then."""
        every = self.config.learner.publish_every
        return self.version + max((step - 1) // every - self.published_step // every, 0)

    def lag(self, trained: int, step: int) -> int:
        """Return the policy lag at learner step `trained` of tokens that the weights of learner step `step` sampled.

        The lag is the number of publications between both steps. It is computed from the steps, because a resumed
        learner may publish the same step again under a new version.
        """
        every = self.config.learner.publish_every
        return (trained - 1) // every - step // every

    def _draw_place(self, play: PlayRecord) -> int:
        """Draw a play's place in the leasing order of its chunk, so that the order reveals neither arm nor index."""
        return self.seed("place", play.id)

    def instance(self, environment: str, number: int) -> int:
        """Return the seed of instance `number` of an environment. It is the same in both arms."""
        return self.seed("instance", environment, number) & INSTANCE_MASK

    def seed(self, purpose: str, *parts: str | int) -> int:
        """Derive a seed of the run."""
        return derive(self.secret, purpose, *parts)
