"""The store's records, one struct for each table. They are mutable: the ledger changes one and marks it to be written.

Times are seconds of the run clock, which counts while the replay service is up. Deadlines do not pass while it is down.
A new field goes to the end and has a default. Any other change raises the store's format.
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
"""Only stores of earlier versions have `late`: no env-runner took up the audit in time, and the window was paid."""


class Record(msgspec.Struct, array_like=True):
    """Base of all records in the store."""


class Job(Record):
    """A job to write a program, or to bring one from a pool. At most one environment comes of it."""

    id: str
    number: int
    round: int  # number of its round of jobs, from 0
    skill: str
    opened_at: float
    state: JobState = "open"
    lease: int = 0  # how often the job was leased, which is the number of the newest lease
    holder: str = ""  # the process that leased the job last
    deadline: float = 0.0  # the end of the lease
    seeds: tuple[str, ...] = ()  # environments of the memory that the newest lease may show as examples to vary
    attempts: tuple[tuple[int, int], ...] = ()  # the rejected attempts, as (lease, attempt)
    request: int = 0  # the holder's number of the request that got this lease
    earlier: tuple[tuple[str, ...], ...] = ()  # `seeds` of the earlier leases, in order
    program: str = ""  # the pool program to use; "" if a designer writes the program
    level: int = 0  # the level at which to use the pool program

    def varied(self, lease: int, shown: tuple[str, ...]) -> tuple[str, ...]:
        """Return the environments of `shown` that lease number `lease` offered to vary. Empty without such a lease."""
        offered = (*self.earlier, self.seeds)
        ago = self.lease - lease
        return tuple(seed for seed in offered[-1 - ago] if seed in shown) if 0 <= ago < len(offered) else ()


class Reject(Record):
    """A candidate that failed admission, kept for inspection. Its trajectory is stored under the same key."""

    job: str
    lease: int
    attempt: int
    skill: str
    document: str  # the document that its designer was given, "" without one
    completion: str  # the text that the model wrote
    stage: str  # the stage of admission that it failed
    reason: str
    at: float
    shown: tuple[str, ...] = ()  # environments of the memory in its prompt
    setting: str = ""  # the setting that its designer was asked for, or ""
    variant: str = ""  # the variant that its designer was asked for, or ""


class Source(Record):
    """An admitted program with its hint and its first observation."""

    source: str
    hint: str  # "" if there is no hint
    first_observation: str
    reads: Form = "inside"  # form of the actions that plays send to the program
    single_turn: bool = False  # True if each play of admission was over after its first action


class Chunk(Record):
    """G unhinted plays of an environment, scored together. Chunk 0 also holds their hinted twins."""

    index: int  # its place in the window, from 0
    opened_at: float
    version: int  # the newest policy version when the chunk began; before that, when it opened
    begun: bool = False  # True once its first play was leased
    scored_at: float | None = None  # None until its unhinted plays have ended


class Score(Record):
    """An environment's figures when its window closed. Rates, regret and return count finished plays only."""

    reward: float | None  # the designer's reward; None if its figure was not measured, or if the audit was left out
    regret: float | None
    regret_error: float | None  # standard error of the regret
    win_rate: Annotated[float, Meta(ge=0, le=1)] | None  # win rate of the unhinted plays
    win_rate_hinted: float | None
    learnable: bool
    plays: int  # finished plays of both arms
    voids: int  # void plays of both arms
    mean_return: float | None = None  # mean return of the unhinted plays
    slow: float | None = None  # the skill's slow average before this window
    order: int | None = None  # its number among the windows in the skill's averages; None if it is not in them
    luck: Annotated[int, Meta(ge=0)] | None = None
    """Lost unhinted plays that count as void because nobody can win them. None if the window was scored by an earlier
    version, under which no such play counted as void."""
    least_regret: float | None = None
    """The regret if each void play had the return that makes the regret least. The memory keeps this figure. None
    without a pair of plays."""


class Audit(Record):
    """The audit of an environment after its last play and before its window closes."""

    id: str  # id of the environment
    began_at: float
    replays: tuple[str, ...]  # recorded plays to run again
    indices: tuple[int, ...]  # instances on which the audit plays random actions
    state: AuditState = "open"
    lease: int = 0  # how often the audit was leased
    holder: str = ""
    deadline: float = 0.0
    request: int = 0  # the holder's number of the request that got this lease
    finding: str = ""  # why the audit failed or was left out; if it passed, how many plays the solution lost
    steps: int = 0  # environment steps that the audit made
    seconds: float = 0.0  # seconds that the audit took
    lost: tuple[int, ...] = ()  # instances on which the audit plays the actions of `solution()`
    tried: int = 0  # number of `lost` instances on which the solution was played
    solved: int = 0  # number of `lost` instances that the solution won
    unaided: tuple[int, ...] = ()
    """Instances that no unhinted play won. The audit checks if words of the hint alone win them."""


class Environment(Record):
    """An admitted environment and its window."""

    id: str
    job: str
    round: int
    skill: str
    name: str
    document: str  # the document that its designer was given, "" without one
    attempt: int  # the attempt of the job that was admitted
    seed_sensitive: bool  # True if the program plays differently under another seed
    designed_version: int  # version of the oldest policy that sampled its program; 0 if no policy of this run did
    opened_at: float
    deadline: float  # when the window ends at the latest
    state: EnvironmentState = "active"
    chunks: list[Chunk] = []
    levels: list[float] = []  # distinct rewards that the program gave, the first 256
    closed_at: float | None = None
    score: Score | None = None
    parents: tuple[str, ...] = ()  # environments of the memory that its designer was shown to vary
    audit: Audit | None = None
    repairs: Repairs = ()  # repairs of its program, as its designer reported them
    program: str = ""  # its name in the pool; "" if a designer wrote it
    measures: Measures = Measures()  # measures of its program
    setting: str = ""  # the setting that its designer was asked for, or ""
    variant: str = ""  # the variant that its designer was asked for, or ""
    level: int = 0  # the level of a pool's program
    grouped: bool = False  # True if all plays of a chunk are on one instance


class PlayRecord(Record):
    """One play of an environment."""

    id: str
    environment: str
    chunk: int  # the index of its chunk
    index: int  # its number within its arm of the window
    hinted: bool
    state: PlayState = "open"
    lease: int = 0  # number of leases of the play so far
    holder: str = ""  # the process that leased it; at the end the process that played it
    deadline: float = 0.0  # the end of the lease
    version: int = 0
    """Policy version: the newest at the lease. Once the play has ended, the oldest that sampled a token."""
    terminated: bool = False  # True if the program ended the episode
    episode_return: float = 0.0
    turns: int = 0
    sampled: int = 0  # tokens that the policy sampled
    seconds: float = 0.0  # seconds that the play took
    fault: str = ""  # why the play is void
    request: int = 0  # the holder's number of the request that got this lease
    suspected: int = 0  # number of leases under which a service crashed or failed while it served this play
    tools: ToolUse | None = None  # None if the program has no tools


class Member(Record):
    """A trajectory of a group with its reward."""

    trajectory: str  # its key in the store
    reward: float
    version: int  # the oldest policy version that sampled one of its tokens


class DesignGroup(Record):
    """The jobs of one skill in one round. Their designs become one group of the queue when all jobs have closed, or at
    the deadline."""

    id: str
    round: int
    skill: str
    jobs: int  # number of jobs in the group
    deadline: float  # when the group forms at the latest
    closed: int = 0  # number of jobs that have closed
    members: tuple[Member, ...] = ()
    before: float | None = None  # the skill's running mean before the first member's reward entered it
    formed: bool = False  # True once the group is in the queue
    train: bool = True  # False if designers are not trained; the group then accepts no member


class GroupRecord(Record):
    """A trainable group."""

    order: int  # its place in the queue
    id: str
    role: Literal["agent", "designer"]
    members: tuple[Member, ...]
    ready_at: float
    before: float | None = None  # for designers, the skill's running mean reward before this group

    @property
    def baseline(self) -> float | None:
        """Return the reward with which a design is compared if it is alone in its group. Otherwise return None."""
        return self.before if self.role == "designer" and len(self.members) == 1 else None


class BatchRecord(Record):
    """The groups of a learner step, in order. Kept for ever, so that any past batch can be rebuilt."""

    step: int
    version: int  # the policy version that the step is trained at
    at: float  # when the learner took it
    groups: tuple[GroupRecord, ...]


class MemoryEntry(Record):
    """An environment in the memory."""

    number: int  # counts the environments ever remembered, so the oldest entry has the least number
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
        """Add one value."""
        self.count += 1
        self.value += (value - self.value) / min(self.count, 10)


class MovingAverages(Record):
    """Two moving averages of a skill's mean unhinted return over its windows."""

    fast: float  # moving average with the weight FAST (reward/scores.py)
    slow: float  # moving average with the weight `reward.slow`
    windows: int = 1  # number of windows in the averages


class Publication(Record):
    """Weights that were given a version."""

    weights: Weights
    metrics: StepMetrics  # measurements of the learner step that made the weights


class QuarantineRecord(Record):
    """A trajectory sampled by weights that were never published. Its key names its play or attempt."""

    holder: str
    why: str  # the fault found in its provenance
    at: float
    trajectory: Trajectory


class Clock(Record):
    """The run clock when it was last committed."""

    elapsed_s: float = 0.0


class RunCounters(Record):
    """The counters of a run, and a few values that go with them."""

    jobs: int = 0  # jobs ever opened
    round: int = 0  # the round that is being filled
    round_jobs: int = 0  # jobs opened in this round
    environments: int = 0  # number of environments admitted since the start
    queued: int = 0  # groups ever queued
    remembered: int = 0  # number of environments remembered since the start
    taken_step: int = 0  # the last step with a batch that the learner took
    retired_step: int = 0  # the last step in a checkpoint
    plays: int = 0  # finished plays of both arms
    voids: int = 0  # void plays of both arms
    expired_leases: int = 0  # leases that passed their deadline or lost their holder
    released_leases: int = 0  # leases that their holder gave back
    late_plays: int = 0  # plays that came in after they were closed
    rejected_candidates: int = 0
    failed_jobs: int = 0
    trainable: int = 0  # trajectories of both roles that could be trained
    trained: int = 0  # trajectories of both roles in batches
    wasted: int = 0  # trainable trajectories of both roles that are never trained
    designer_groups: int = 0  # designer groups in batches
    lag_mean: float | None = None  # mean policy lag of the newest batch
    newest_environment: str = ""  # the name of the newest admitted environment
    newest_skill: str = ""  # the skill of this environment
    designer_reward: dict[str, RunningMean] = {}  # by skill
    newest: Publication | None = None  # the newest publication
    recent: list[Weights] = []  # publications of the last checkpoint's step and of later steps
    dropped_step: int = 0  # retention deleted the trajectories of the steps up to this one
    quarantined: int = 0  # trajectories in quarantine
    newest_quarantined: str = ""  # the id, holder and fault of the newest trajectory in quarantine
    round_shape: tuple[int, int] | None = None  # jobs and skills of this round; None if an earlier version began it
    audits: int = 0  # audits that are over
    audit_findings: int = 0  # audits that failed
    audits_left_out: int = 0  # audits without a result, including late ones
    audit_steps: int = 0  # environment steps in all audits
    audit_s: float = 0.0  # seconds of all audits
    newest_finding: str = ""  # the last environment that failed an audit, and the finding of that audit
    designer_trainable: int = 0  # the designers' share of `trainable`
    designer_trained: int = 0  # the designers' share of `trained`
    designer_wasted: int = 0  # the designers' share of `wasted`
    averages: dict[str, MovingAverages] = {}  # by skill
    unhinted: int = 0  # finished unhinted plays

    def waste(self, role: Literal["agent", "designer"], count: int) -> None:
        """Count trainable trajectories of a role that are never trained."""
        self.wasted += count
        self.designer_wasted += count if role == "designer" else 0

    @property
    def wasted_share(self) -> float:
        """Return the share of the trainable trajectories that were wasted, over both roles; 0 before the first."""
        return _compute_share(self.wasted, self.trainable)

    @property
    def wasted_share_agent(self) -> float:
        """Return the wasted share of the agents' trainable trajectories; 0 before the first."""
        return _compute_share(self.wasted - self.designer_wasted, self.trainable - self.designer_trainable)

    @property
    def wasted_share_designer(self) -> float:
        """Return the wasted share of the designers' trainable trajectories; 0 before the first."""
        return _compute_share(self.designer_wasted, self.designer_trainable)


def _compute_share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
