"""The store's records, one struct a table. Mutable: the ledger changes them and marks them to be written.

Times are seconds of the run clock, which counts while the replay service is up; deadlines do
not pass while it is down. New fields go to the end, with a default; anything else raises the store's
format.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from spade.protocol import Form, Measures, Repairs, StepMetrics, ToolUse, Trajectory, Weights

Table = Literal[
    "meta", "jobs", "rejects", "environments", "sources", "plays", "trajectories", "design_groups", "queue", "batches",
    "memory", "publications", "quarantine", "recordings",
]  # fmt: skip

Change = tuple[Table, str, msgspec.Struct | None]

JobState = Literal["open", "leased", "admitted", "failed"]
PlayState = Literal["open", "leased", "finished", "void", "cancelled"]
EnvironmentState = Literal["active", "closed", "quarantined"]
AuditState = Literal["open", "leased", "passed", "failed", "left out", "late"]


class Record(msgspec.Struct, array_like=True):
    """Base of all records in the store."""


class Job(Record):
    """One slot to fill. `lease` counts how often it was leased; `attempts` are the (lease, attempt) rejected so far.

    `seeds` are the environments of the memory its newest lease may show to vary, `earlier` those of the leases before.
    `program` names the program of a pool to bring, "" where one is to be designed; `level` is the level to bring it at.
    `holder` and `request` are the process that leased it, and the number of its request.
    """

    id: str
    number: int
    round: int
    skill: str
    opened_at: float
    state: JobState = "open"
    lease: int = 0
    holder: str = ""
    deadline: float = 0.0
    seeds: tuple[str, ...] = ()
    attempts: tuple[tuple[int, int], ...] = ()
    request: int = 0
    earlier: tuple[tuple[str, ...], ...] = ()
    program: str = ""
    level: int = 0

    def varied(self, lease: int, shown: tuple[str, ...]) -> tuple[str, ...]:
        """The environments of `shown` that lease number `lease` had to vary; empty if there was no such lease."""
        offered = (*self.earlier, self.seeds)
        ago = self.lease - lease
        return tuple(seed for seed in offered[-1 - ago] if seed in shown) if 0 <= ago < len(offered) else ()


class Reject(Record):
    """A candidate that failed admission, kept for inspection; its trajectory rests under the same key.

    `shown` are the environments of the memory that were in its prompt.
    """

    job: str
    lease: int
    attempt: int
    skill: str
    document: str
    completion: str
    stage: str
    reason: str
    at: float
    shown: tuple[str, ...] = ()
    setting: str = ""
    variant: str = ""


class Source(Record):
    """An admitted program. Without a hint `hint` is "". `reads` and `single_turn` are as in Verdict."""

    source: str
    hint: str
    first_observation: str
    reads: Form = "inside"
    single_turn: bool = False


class Chunk(Record):
    """G unhinted plays of an environment (chunk 0: and their hinted twins). `begun`: its first play was leased.

    `version` is the newest policy when it opened, then when it began.
    """

    index: int
    opened_at: float
    version: int
    begun: bool = False
    scored_at: float | None = None


class Score(Record):
    """An environment's figures when its window closed.

    `reward` is None if what it pays for was not measured: no play ended, or the audit was left out. `mean_return` is of
    the unhinted plays, `slow` the slow average of the skill before it, `order` its place among the windows that
    entered the skill's averages (None: it did not). `regret`, the win rates and `mean_return` are over finished plays.
    """

    reward: float | None
    regret: float | None
    regret_error: float | None
    win_rate: Annotated[float, Meta(ge=0, le=1)] | None
    win_rate_hinted: float | None
    learnable: bool
    plays: int
    voids: int
    mean_return: float | None = None
    slow: float | None = None
    order: int | None = None
    luck: Annotated[int, Meta(ge=0)] | None = None
    """Lost unhinted plays that count as void, since nobody can win them. None: scored when no void counted."""
    least_regret: float | None = None
    """The regret if each void play had returned what lowers it most; the memory keeps it. None without a pair."""


class Audit(Record):
    """The audit of an environment whose window is over. `finding` is the reason why it failed or was left out,
    or, if it passed, what its solution did not win.

    `replays` are recorded plays to run again, `indices` the instances to play with random actions, `lost` the instances
    to play with the actions of `solution()`. Of these, `tried` came to a result and `solved` were won.
    """

    id: str
    began_at: float
    replays: tuple[str, ...]
    indices: tuple[int, ...]
    state: AuditState = "open"
    lease: int = 0
    holder: str = ""
    deadline: float = 0.0
    request: int = 0
    finding: str = ""
    steps: int = 0
    seconds: float = 0.0
    lost: tuple[int, ...] = ()
    tried: int = 0
    solved: int = 0


class Environment(Record):
    """An admitted environment and its window. `levels` are the distinct rewards it handed out (the first 256).

    `parents` are the environments of the memory its designer was shown to vary; `repairs` those of its program, as its
    designer told; `program` its name in the pool it is from, "" where it was designed; `measures` those of its program;
    `setting` and `variant` those that its designer was asked for, or ""; `level` that of a pool's program; `grouped`:
    the plays of a chunk are all of one instance.
    """

    id: str
    job: str
    round: int
    skill: str
    name: str
    document: str
    attempt: int
    seed_sensitive: bool
    designed_version: int
    opened_at: float
    deadline: float
    state: EnvironmentState = "active"
    chunks: list[Chunk] = []
    levels: list[float] = []
    closed_at: float | None = None
    score: Score | None = None
    parents: tuple[str, ...] = ()
    audit: Audit | None = None
    repairs: Repairs = ()
    program: str = ""
    measures: Measures = Measures()
    setting: str = ""
    variant: str = ""
    level: int = 0
    grouped: bool = False


class PlayRecord(Record):
    """One play. `version` is the newest policy when it was leased, then the oldest that sampled one of its tokens.

    `holder` and `request` are the process that leased it, and the number of its request; in the end `holder` played it.
    `suspected` counts the leases under which a service ended, or met an unforeseen error, while it served this play.
    `tools`: None where its program has none.
    """

    id: str
    environment: str
    chunk: int
    index: int
    hinted: bool
    state: PlayState = "open"
    lease: int = 0
    holder: str = ""
    deadline: float = 0.0
    version: int = 0
    terminated: bool = False
    episode_return: float = 0.0
    turns: int = 0
    sampled: int = 0
    seconds: float = 0.0
    fault: str = ""
    request: int = 0
    suspected: int = 0
    tools: ToolUse | None = None


class Member(Record):
    """A trajectory of a group with its reward and the oldest policy version that sampled one of its tokens."""

    trajectory: str
    reward: float
    version: int


class DesignGroup(Record):
    """The jobs of one skill in one round; it becomes a group of the queue when all have closed, or at its deadline.

    `before` is the skill's running mean before the first member's reward entered it. Without `train` it has no member.
    """

    id: str
    round: int
    skill: str
    jobs: int
    deadline: float
    closed: int = 0
    members: tuple[Member, ...] = ()
    before: float | None = None
    formed: bool = False
    train: bool = True


class GroupRecord(Record):
    """A trainable group. `order` is its place in the queue; `before` as in DesignGroup."""

    order: int
    id: str
    role: Literal["agent", "designer"]
    members: tuple[Member, ...]
    ready_at: float
    before: float | None = None

    @property
    def baseline(self) -> float | None:
        """The value that a designer alone in its group is compared with."""
        return self.before if self.role == "designer" and len(self.members) == 1 else None


class BatchRecord(Record):
    """The groups of a learner step, in order. Kept for ever: any past batch can be rebuilt."""

    step: int
    version: int
    at: float
    groups: tuple[GroupRecord, ...]


class Remembered(Record):
    """An environment in the memory."""

    number: int
    environment: str
    skill: str
    source: str
    regret: float | None
    win_rate: float
    win_rate_hinted: float | None
    reward: float | None = None


class RunningMean(Record):
    """A running mean: cumulative over the first ten values, then with weight 0.1 on the new one."""

    value: float = 0.0
    count: int = 0

    def add(self, value: float) -> None:
        """Take one more value."""
        self.count += 1
        self.value += (value - self.value) / min(self.count, 10)


class MovingAverages(Record):
    """Two moving averages of the mean unhinted return over the `windows` of a skill, by reward.fast and reward.slow."""

    fast: float
    slow: float
    windows: int = 1


class Publication(Record):
    """Weights that were given a version, with the metrics of the step before."""

    weights: Weights
    metrics: StepMetrics


class Quarantined(Record):
    """A trajectory sampled by weights that were never published. Its key names its play or attempt."""

    holder: str
    why: str
    at: float
    trajectory: Trajectory


class Clock(Record):
    """The run clock when it was last committed, s."""

    elapsed_s: float = 0.0


class RunCounters(Record):
    """The counters of a run, and the few values that go with them.

    `round` is the round being filled, `round_jobs` its jobs so far, `round_shape` the numbers of its jobs and
    skills (None: it began before this was kept); `recent` are the publications since the last checkpoint; trajectories
    of the steps up to `dropped_step` have been deleted by retention. `trainable`, `trained` and `wasted` count both
    roles' trajectories, `designer_trainable` and so on the designer's alone; `unhinted` those of `plays` without the
    hint; `averages` are by skill.
    """

    jobs: int = 0
    round: int = 0
    round_jobs: int = 0
    environments: int = 0
    queued: int = 0
    remembered: int = 0
    taken_step: int = 0
    retired_step: int = 0
    plays: int = 0
    voids: int = 0
    expired_leases: int = 0
    released_leases: int = 0
    late_plays: int = 0
    rejected_candidates: int = 0
    failed_jobs: int = 0
    trainable: int = 0
    trained: int = 0
    wasted: int = 0
    designer_groups: int = 0
    lag_mean: float | None = None
    newest_environment: str = ""
    newest_skill: str = ""
    designer_reward: dict[str, RunningMean] = {}
    newest: Publication | None = None
    recent: list[Weights] = []
    dropped_step: int = 0
    quarantined: int = 0
    newest_quarantined: str = ""
    round_shape: tuple[int, int] | None = None
    audits: int = 0
    audit_findings: int = 0
    audits_left_out: int = 0
    audit_steps: int = 0
    audit_s: float = 0.0
    newest_finding: str = ""
    designer_trainable: int = 0
    designer_trained: int = 0
    designer_wasted: int = 0
    averages: dict[str, MovingAverages] = {}
    unhinted: int = 0

    def waste(self, role: Literal["agent", "designer"], count: int) -> None:
        """Count trainable trajectories of a role that are never trained."""
        self.wasted += count
        self.designer_wasted += count if role == "designer" else 0

    @property
    def wasted_share(self) -> float:
        """Share of the trainable trajectories that were wasted, of both roles; 0 before the first."""
        return _share(self.wasted, self.trainable)

    @property
    def wasted_share_agent(self) -> float:
        """The same share, of agents."""
        return _share(self.wasted - self.designer_wasted, self.trainable - self.designer_trainable)

    @property
    def wasted_share_designer(self) -> float:
        """The same share, of designers."""
        return _share(self.designer_wasted, self.designer_trainable)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
