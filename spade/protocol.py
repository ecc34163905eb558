"""Every message of the bus, and the values messages carry.

Frozen, tagged, array-like msgspec structs: new information is a new field with a default at the end. Lengths are
checked where a message is made, so also where it is decoded. Each request names its reply in its docstring.
"""

from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

PROTOCOL_VERSION = 6

Role = Literal[
    "replay", "learner", "engine", "endpoint", "env-runner", "designer", "agent", "evaluator", "observer", "supervisor"
]  # fmt: skip
Outcome = Literal["terminated", "truncated", "fault"]
Finish = Literal["stop", "length"]
Form = Literal["inside", "box"]  # of an action as it is sent to a program: what the model boxed, or with its box
Repair = Literal["f-string braces", "fences"]
ProcessState = Literal["starting", "ready", "silent", "restarting", "draining", "stopped", "failed"]
# A container is bounded where its items are small, so that it takes little more memory than its bytes on the wire.
MOST_ITEMS, MOST_GAUGES, MOST_NAME, MOST_STOPS = 65_536, 256, 256, 16
MOST_ACTORS = 256  # of one role that a supervisor may be ordered to keep up
MOST_HINT = 65_536  # characters of a hint: a message of leases has those of all of them
DIGEST_BYTES = 16
_T = TypeVar("_T")
Many = Annotated[tuple[_T, ...], Meta(max_length=MOST_ITEMS)]
Gauges = Annotated[dict[str, float], Meta(max_length=MOST_GAUGES)]
Name = Annotated[str, Meta(max_length=MOST_NAME)]
Count = Annotated[int, Meta(ge=0)]
Repairs = Annotated[tuple[Repair, ...], Meta(max_length=2)]  # of a program, before anything else is done with it


class Wire(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of all that travels."""


# ---------------------------------------------------------------- values


class Trajectory(Wire, frozen=True):
    """The tokens that the model read and wrote in one episode (or one design), in order.

    The tokens are one sequence, unless `rewinds` make several of them (`spade.sequences`).

    ids       little-endian int32, tokens
    spans     lengths of what it read and what it sampled, in turn, beginning with what it read
    logprobs  little-endian float32, *sampled* tokens; log-probability under the distribution really sampled from
    versions  runs (policy version, count) over the sampled tokens, in order
    digests   of the weights that sampled each run, 16 bytes a run; empty where the engine gave none
    rewinds   (at, kept), by rising `at`: before token `at` was read, the context was cut back to its first `kept`
    """

    ids: bytes
    spans: Many[int]
    logprobs: bytes
    versions: Many[tuple[int, int]]
    temperature: float
    digests: bytes = b""
    rewinds: Many[tuple[int, int]] = ()

    def __post_init__(self) -> None:
        tokens, sampled = sum(self.spans), sum(self.spans[1::2])
        if len(self.ids) != 4 * tokens or len(self.logprobs) != 4 * sampled or min(self.spans, default=0) < 0:
            raise ValueError(
                f"trajectory: {len(self.ids)} id bytes and {len(self.logprobs)} log-probability bytes do not fit "
                f"spans of {tokens} tokens, {sampled} of them sampled"
            )
        if _covered(self.versions) != sampled:
            raise ValueError("trajectory: the version runs do not cover the sampled tokens")
        _check_digests(self.digests, self.versions)
        if not self.temperature > 0:
            raise ValueError(f"trajectory: temperature must be positive, is {self.temperature}")
        _contexts(self.tokens, self.rewinds)

    @property
    def tokens(self) -> int:
        """All tokens, read and sampled, each counted once."""
        return len(self.ids) // 4

    @property
    def contexts(self) -> tuple[int, ...]:
        """Tokens of each of its sequences."""
        return _contexts(self.tokens, self.rewinds)

    @property
    def sampled(self) -> int:
        """Tokens the model sampled."""
        return len(self.logprobs) // 4


def _contexts(tokens: int, rewinds: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    """Lengths of the context before each rewind and at the end. Raises ValueError for a rewind that cuts nothing."""
    lengths, begin, length = list[int](), 0, 0
    for at, kept in rewinds:
        length += at - begin
        if not (begin < at < tokens and 0 <= kept < length):
            raise ValueError(f"trajectory: no rewind of {length} tokens to {kept} can be at token {at} of {tokens}")
        lengths.append(length)
        begin, length = at, kept
    return (*lengths, length + tokens - begin)


def _covered(versions: tuple[tuple[int, int], ...]) -> int:
    """The sampled tokens that version runs cover. Raises ValueError for a run of none."""
    counts = [count for _, count in versions]
    if min(counts, default=1) < 1:
        raise ValueError(f"a version run of a trajectory must cover a token or more, is {min(counts)}")
    return sum(counts)


def _check_digests(digests: bytes, versions: tuple[tuple[int, int], ...]) -> None:
    if digests and len(digests) != DIGEST_BYTES * len(versions):
        raise ValueError(f"{len(digests)} bytes of digests do not fit {len(versions)} version runs")


class Recording(Wire, frozen=True):
    """The course of a play, from which an audit runs it again.

    actions    the actions that the program was sent, in order
    answers    digests (`codec.answer_digest`) of its answers, 16 bytes each: to the reset, then to each action
    max_turns  turns that the program was granted
    """

    actions: Many[str]
    answers: bytes
    max_turns: Count

    def __post_init__(self) -> None:
        if len(self.answers) != DIGEST_BYTES * (len(self.actions) + 1):
            raise ValueError(f"recording: {len(self.answers)} bytes of digests do not fit {len(self.actions)} actions")


class MemorySeed(Wire, frozen=True):
    """An environment of the memory as the designer is shown it; `reason` says what an example to avoid teaches."""

    environment: str
    source: str
    regret: float
    win_rate: float
    reason: str = ""


class DesignJob(Wire, frozen=True):
    """One slot to fill.

    Attempt n (from 1) is given document (draw + n - 1) mod the size of the corpus. `draw` also says what all attempts
    are asked for beside the skill; `sampler` seeds the sampling.
    """

    id: str
    lease: int
    round: int
    skill: str
    draw: int
    sampler: int
    seeds: tuple[MemorySeed, ...] = ()
    avoid: MemorySeed | None = None


class PlayLease(Wire, frozen=True):
    """One episode to play, and what its agent needs of the environment.

    program   names the program (`codec.program_digest`), which the agent never sees
    hint      what the hinted arm is told; None in the unhinted one
    seed      the instance, the same in both arms; `sampler` seeds the sampling
    reads     as in Verdict
    """

    id: str
    lease: int
    environment: str
    program: Name
    hint: str | None
    seed: int
    sampler: int
    reads: Form = "inside"

    @property
    def hinted(self) -> bool:
        """True in the hinted arm."""
        return self.hint is not None


class RecordedPlay(Wire, frozen=True):
    """A recorded play to run again on its instance `seed`."""

    play: str
    seed: int
    recording: Recording


class AuditJob(Wire, frozen=True):
    """An environment to audit before its designer is paid.

    replays     recorded plays that must come out as they did
    seeds       instances to play with random actions, each of them once
    wins        so many won ones of these are a finding
    max_turns   turns of a random play
    draw        seeds the order of the replays and the random actions
    within_s    what is not over by then is left out
    reads       the form of a random action; the recorded ones are as they were sent
    """

    environment: str
    lease: int
    source: str
    replays: Many[RecordedPlay]
    seeds: Many[int]
    wins: int
    win_return: float
    max_turns: int
    draw: int
    within_s: float
    reads: Form = "inside"


class Group(Wire, frozen=True):
    """A whole group as the learner consumes it.

    `rewards` are episode returns (agent) or designer rewards (designer), one for each trajectory; `baseline` is the
    skill's running mean where a designer stands alone in its group, else None.
    """

    id: str
    role: Literal["agent", "designer"]
    rewards: tuple[float, ...]
    trajectories: tuple[Trajectory, ...]
    baseline: float | None = None

    def __post_init__(self) -> None:
        if len(self.rewards) != len(self.trajectories) or not self.rewards:
            raise ValueError(f"group {self.id}: {len(self.rewards)} rewards for {len(self.trajectories)} trajectories")


class Stage(Wire, frozen=True):
    """One stage of admission."""

    name: str
    passed: bool
    reason: str = ""
    seconds: float = 0.0


class Peer(Wire, frozen=True):
    """A service that others may call."""

    role: Role
    name: str
    address: str


class Weights(Wire, frozen=True):
    """Published parameters: a folder on the learner's host, named by their digest (`spade.manifest`, hex)."""

    version: int
    step: int
    digest: str
    path: str


class Process(Wire, frozen=True):
    """A process as its supervisor sees it; `gauges` are those of its last heartbeat to the replay service."""

    name: str
    role: Role
    pid: int
    state: ProcessState
    restarts: int
    detail: str = ""
    gauges: Gauges = {}
    supervisor: str = ""


class Wait(Wire, frozen=True):
    """`who` waits for `holder` to bring `what`: `count` times at once, the longest for `for_s` seconds.

    `why` says what the holder lacks, where the replay service knows it. A process leaves `who` to its heartbeat.
    """

    holder: str
    what: str
    count: int = 1
    for_s: float = 0.0
    who: str = ""
    why: str = ""


class StepMetrics(Wire, frozen=True):
    """The learner's measurements of one step; names as in `docs/metrics.md`."""

    loss: float = 0.0
    loss_agent: float = 0.0
    loss_designer: float = 0.0
    grad_norm: float = 0.0
    clip_fraction: float = 0.0
    truncated_fraction: float = 0.0
    effective_sample_share: float = 0.0
    mismatch: float = 0.0
    entropy: float = 0.0
    agent_sequences: int = 0
    designer_sequences: int = 0
    designer_weight: float = 0.0
    trained_tokens: int = 0
    step_s: float = 0.0
    wait_s: float = 0.0
    skipped: int = 0
    masked_fraction: float = 0.0
    kl: float = 0.0
    lr: float = 0.0
    tokens_by_lag: Many[int] = ()
    mismatch_by_lag: Many[float] = ()


class Evaluation(Wire, frozen=True):
    """Results of the policy on the fixed set of `config.Evaluation`, without a hint.

    step      learner step of the policy it began with; oldest, newest: the policy versions that sampled its tokens
    plays     that ended, those that a fault of their program voided (`voids`) not among them
    win_rate  share of the plays that were won, and its standard error over plays
    seconds   that it took
    """

    step: Count
    oldest: Count
    newest: Count
    plays: Annotated[int, Meta(ge=1)]
    voids: Count
    win_rate: Annotated[float, Meta(ge=0, le=1)]
    error: Annotated[float, Meta(ge=0, le=1)]
    seconds: float


# ---------------------------------------------------------------- session


class Hello(Wire, frozen=True):
    """First message on every connection. Reply: Ready or Refused. `address` is where this process serves others."""

    protocol: int
    digest: Name
    role: Role
    name: Name
    pid: int
    address: Name | None = None


class Ready(Wire, frozen=True):
    """The handshake is done. `life`: of the service, another one after each restart; the rest as in a Pulse."""

    peers: tuple[Peer, ...] = ()
    weights: Weights | None = None
    life: Name = ""


class Refused(Wire, frozen=True):
    """The request cannot be served; the text says why and what to do. Final: the sender does not try again.

    `unforeseen`: serving it ended in an error that nobody foresaw, so that the request itself is under suspicion.
    """

    reason: str
    unforeseen: bool = False


class Rehello(Wire, frozen=True):
    """The server does not know this peer (it restarted, or gave it up): say hello again, then send what is open.

    `leaving`: unasked, from a server that ends in order; whatever it does not answer is no reason for its end.
    """

    leaving: bool = False


class Heartbeat(Wire, frozen=True):
    """I am alive. `gauges` are this process's own figures (names in `docs/metrics.md`). Reply: Pulse."""

    gauges: Gauges = {}
    waits: Many[Wait] = ()


class Pulse(Wire, frozen=True):
    """The service is alive; who else may be called, and the newest weights."""

    peers: tuple[Peer, ...] = ()
    weights: Weights | None = None


class Goodbye(Wire, frozen=True):
    """A peer that leaves in order. Reply: Done."""


class Done(Wire, frozen=True):
    """The request took effect and, at the replay service, is committed."""


# ---------------------------------------------------------------- engine


class Generate(Wire, frozen=True):
    """Sample a continuation. Reply: Generated, Overdue, or Refused (it can never be served).

    prompt: little-endian int32 token ids. Sampling ends at one of the model's end-of-turn tokens or once the text holds
    one of the strings `stop`, either of which is returned, or after max_tokens. The distribution is that of the logits
    over temperature, cut to its `top_k` likeliest tokens (0: all), then to the fewest of these that hold `top_p` of the
    probability. What is not over within `deadline_s` of its arrival is given up (0: never).
    """

    prompt: bytes
    max_tokens: int
    temperature: float
    seed: int
    top_p: float = 1.0
    top_k: int = 0
    stop: Annotated[tuple[Name, ...], Meta(max_length=MOST_STOPS)] = ()
    deadline_s: float = 0.0


class Generated(Wire, frozen=True):
    """ids: int32 bytes, the end-of-turn token included; logprobs: float32 bytes; versions: runs (version, count).

    What no published policy sampled (an endpoint's) has no versions, and no log-probabilities where none were given.
    digests: of the weights that sampled each run, 16 bytes a run, or empty.
    """

    ids: bytes
    logprobs: bytes
    versions: Many[tuple[int, int]]
    finish: Finish
    digests: bytes = b""

    def __post_init__(self) -> None:
        ours = _covered(self.versions) * 4 == len(self.ids) == len(self.logprobs)
        if not (ours or (not self.versions and len(self.logprobs) in (0, len(self.ids)))):
            raise ValueError("generated: ids, log-probabilities and version runs differ in length")
        _check_digests(self.digests, self.versions)


class Serving(Wire, frozen=True):
    """An engine samples from these weights from now on. Reply: Done, or Refused where they were never published."""

    version: int
    digest: Name


# ---------------------------------------------------------------- weights


class GetWeights(Wire, frozen=True):
    """Ask the learner for up to `count` bytes of a file of published weights, from `offset`.

    Reply: WeightsPart, or Refused where it has retired them.
    """

    digest: Name
    file: Name
    offset: int
    count: int


class WeightsPart(Wire, frozen=True):
    """`data` begins at the offset that was asked for; `size` is that of the whole file, bytes."""

    data: bytes
    size: int


class Overdue(Wire, frozen=True):
    """The deadline of a Generate passed after `waited_s` in the queue and `sampled_s` being sampled."""

    waited_s: float
    sampled_s: float


# ---------------------------------------------------------------- env-runner


class OpenEpisode(Wire, frozen=True):
    """Start an episode: load, construct, reset. Reply: Observed (turn 0), Faulted or Refused (overloaded).

    `program` is its digest (`codec.program_digest`): an env-runner that does not have it asks the replay service.
    """

    episode: str
    program: Name
    seed: int
    max_turns: int


class StepEpisode(Wire, frozen=True):
    """One action; `turn` counts from 1: a repeated request is answered from memory. Reply: Observed or Faulted."""

    episode: str
    turn: int
    action: str


class CloseEpisode(Wire, frozen=True):
    """The episode is over. Idempotent. Reply: Done."""

    episode: str


class Observed(Wire, frozen=True):
    """The program's answer, after all checks."""

    observation: str
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False


class Faulted(Wire, frozen=True):
    """The episode is over by a fault.

    kind: exception, timeout, died, protocol and reward are the program's; lost (no such episode here), unknown (no such
    program, here or at the replay service) and infrastructure are ours.
    """

    kind: Literal["exception", "timeout", "died", "protocol", "reward", "lost", "unknown", "infrastructure"]
    detail: str

    @property
    def environment_fault(self) -> bool:
        """True where the program is to blame, False where the play is to be leased again."""
        return self.kind not in ("lost", "unknown", "infrastructure")


class KeepProgram(Wire, frozen=True):
    """A program of the sender's own, which the replay service does not have, for episodes to come. Reply: Done.

    It may be dropped like any other that is not played: an opening that is `unknown` says so.
    """

    source: str


class GetProgram(Wire, frozen=True):
    """Ask the replay service for a program by its digest. Reply: Program, or Refused (no active environment has it)."""

    program: Name


class Program(Wire, frozen=True):
    """A program; who asked makes sure that it has the digest."""

    source: str


class Validate(Wire, frozen=True):
    """Admit a candidate or say why not. `seed` keys the secret instance seeds. Reply: Verdict."""

    source: str
    seed: int


class Verdict(Wire, frozen=True):
    """The stages in the order they ran, the last one failed where `passed` is False.

    `name` is the class's name, `reads` the form in which plays send actions to the program, `repairs` those of its text
    that its process told of; it was played so.
    """

    passed: bool
    stages: tuple[Stage, ...]
    name: str = ""
    seed_sensitive: bool = False
    first_observation: str = ""
    reads: Form = "inside"
    repairs: Repairs = ()


# ---------------------------------------------------------------- replay: designers


class LeaseDesigns(Wire, frozen=True):
    """Ask for up to `count` design jobs, waiting up to `wait_s` for one. Reply: Designs (empty: none now)."""

    count: int
    wait_s: float


class Designs(Wire, frozen=True):
    """Design jobs, leased."""

    jobs: tuple[DesignJob, ...] = ()


class RejectCandidate(Wire, frozen=True):
    """An attempt that failed admission; `last` closes the job as failed. Kept with its reason. Reply: Done.

    `shown` are the environments of the memory that were in its prompt, to vary and to avoid.
    """

    job: str
    lease: int
    attempt: int
    document: str
    completion: str
    stage: str
    reason: str
    trajectory: Trajectory
    last: bool
    shown: tuple[str, ...] = ()


class SubmitEnvironment(Wire, frozen=True):
    """An admitted program with its hint; `shown` as in RejectCandidate, `reads` as in Verdict.

    `repairs` are those without which it would not have been admitted, or not found in the completion. Idempotent by
    job. Reply: Done.
    """

    job: str
    lease: int
    attempt: int
    document: str
    name: str
    source: str
    hint: str
    seed_sensitive: bool
    first_observation: str
    trajectory: Trajectory
    shown: tuple[str, ...] = ()
    reads: Form = "inside"
    repairs: Repairs = ()


class ReleaseDesign(Wire, frozen=True):
    """Give a job back (the infrastructure failed, or the designer leaves). Reply: Done."""

    job: str
    lease: int


# ---------------------------------------------------------------- replay: agents


class LeasePlays(Wire, frozen=True):
    """Ask for up to `count` plays, waiting up to `wait_s` for one. Reply: Plays (empty: none now)."""

    count: int
    wait_s: float


class Plays(Wire, frozen=True):
    """Plays, leased."""

    plays: tuple[PlayLease, ...] = ()


class EndedPlay(Wire, frozen=True):
    """The end of an episode.

    `rewards` are those of every step; `episode_return` is the last one clipped to [-1, 1] if the episode terminated,
    else 0; `trajectory` is None where a fault of the environment voids the play, and `fault` says which.
    """

    id: str
    lease: int
    outcome: Outcome
    episode_return: float
    rewards: Many[float]
    seconds: float
    trajectory: Trajectory | None = None
    fault: str = ""
    recording: Recording | None = None


class SubmitPlays(Wire, frozen=True):
    """Episodes that ended, together. Idempotent by play id, each for itself. Reply: Done, or Refused.

    A play that makes no sense keeps no other from being taken: Refused names it, and the others are committed.
    """

    plays: Many[EndedPlay]


class ReleasePlay(Wire, frozen=True):
    """Give a play back: a fault of the infrastructure, it is leased again on the same seed. Reply: Done.

    `suspect`: a service ended, or met an error nobody foresaw, while it served this play; the second time it is void.
    """

    id: str
    lease: int
    suspect: bool = False


# ---------------------------------------------------------------- replay: env-runners


class LeaseAudit(Wire, frozen=True):
    """Ask for an audit, waiting up to `wait_s` for one. Reply: Audits (empty: none now)."""

    wait_s: float


class Audits(Wire, frozen=True):
    """At most one audit, leased."""

    jobs: tuple[AuditJob, ...] = ()


class Audited(Wire, frozen=True):
    """An audit is over. Idempotent by environment. Reply: Done, or Refused.

    finding   why the environment is quarantined; "" where nothing was found
    replays   recorded plays that were run again to a result, `left_out` those that came to none
    plays     random plays that were run, `wins` those that were won
    steps     of the environment, in all of them
    """

    environment: str
    lease: int
    finding: str
    replays: Count
    left_out: Count
    plays: Count
    wins: Count
    steps: Count
    seconds: float


# ---------------------------------------------------------------- replay: learner


class TakeBatch(Wire, frozen=True):
    """The batch of learner step `step`, waiting up to `wait_s` for it. Reply: Batch or NotYet.

    Idempotent by step: a step that was taken before gets the recorded groups again, in the same order; so a learner
    that resumes at step s replays the batches after s and then goes on.
    """

    step: int
    wait_s: float


class Batch(Wire, frozen=True):
    """Whole groups of either role, in the order they became trainable. `version` is the one the step is trained at."""

    step: int
    version: int
    groups: tuple[Group, ...]


class NotYet(Wire, frozen=True):
    """No batch yet; `reason` says what is waited for."""

    reason: str


class Publish(Wire, frozen=True):
    """New weights after `step` (0: the initial ones). The version is drawn, persisted, announced. Reply: Published."""

    step: int
    digest: str
    path: str
    metrics: StepMetrics


class Published(Wire, frozen=True):
    """The weights as announced."""

    weights: Weights


class Checkpointed(Wire, frozen=True):
    """A checkpoint of `step` is durable: the groups of steps up to it may retire. Reply: Done."""

    step: int


# ---------------------------------------------------------------- replay: evaluator


class Evaluated(Wire, frozen=True):
    """An evaluation is over. The one that was handed in last is not taken twice. Reply: Done, or Refused."""

    evaluation: Evaluation


# ---------------------------------------------------------------- replay: observers


class ReportProcesses(Wire, frozen=True):
    """A supervisor's children, and how many actors of each role it keeps up (None: none at all). Reply: Orders."""

    supervisor: Name
    processes: Many[Process]
    wanted: dict[Role, int] | None = None


class Orders(Wire, frozen=True):
    """Changes for a supervisor: the number of actors of a role to keep up, and the names of those to drain.

    Sent to the replay service (reply: Done, or Refused where no such supervisor keeps actors), which hands it to the
    supervisor with the answer to its next report. Kept in memory alone: who orders looks at the status for its effect,
    and orders again where there is none.
    """

    supervisor: str
    counts: dict[Role, int] = {}
    drain: tuple[str, ...] = ()


class GetStatus(Wire, frozen=True):
    """Reply: Status."""


class Status(Wire, frozen=True):
    """The run at a glance, for `spade status` and the live view. Rates are a second's; None: not measured yet."""

    run: str = ""
    elapsed_s: float = 0.0
    learner_step: int = 0
    policy_version: int = 0
    plays: int = 0
    plays_per_s: float = 0.0
    sampled_tokens_per_s: float = 0.0
    environments: int = 0
    active_environments: int = 0
    rejected_candidates: int = 0
    failed_jobs: int = 0
    validity: float | None = None
    win_rate_unhinted: float | None = None
    win_rate_hinted: float | None = None
    win_rate_error: float | None = None
    regret: float | None = None
    regret_error: float | None = None
    learnable_share: float | None = None
    lag_mean: float | None = None
    wasted_share: float = 0.0
    zero_variance_share: float | None = None
    reward_levels: float | None = None
    response_tokens: float | None = None
    designer_groups: int = 0
    designer_reward: float | None = None
    waiting_for: str = ""
    memory: int = 0
    voids: int = 0
    expired_leases: int = 0
    dropped_messages: int = 0
    newest_environment: str = ""
    newest_skill: str = ""
    step_metrics: StepMetrics | None = None
    processes: tuple[Process, ...] = ()
    regret_history: tuple[tuple[float, float], ...] = ()
    win_rate_history: tuple[tuple[float, float], ...] = ()
    released_leases: int = 0
    late_plays: int = 0
    backlog: int = 0
    wanted: dict[str, dict[Role, int]] = {}
    waits: tuple[Wait, ...] = ()
    stalled_s: float = 0.0
    strangers: int = 0
    quarantined: int = 0
    newest_quarantined: str = ""
    broadcast_s: float | None = None
    evaluations: tuple[Evaluation, ...] = ()
    audits: int = 0
    audit_findings: int = 0
    audits_left_out: int = 0
    audit_steps: int = 0
    audit_s: float = 0.0
    newest_finding: str = ""
    examples_shown: float | None = None
    wasted_share_agent: float = 0.0
    wasted_share_designer: float = 0.0


Request = (
    Hello | Heartbeat | Goodbye
    | Generate | Serving | GetWeights
    | OpenEpisode | StepEpisode | CloseEpisode | Validate | KeepProgram | GetProgram
    | LeaseDesigns | RejectCandidate | SubmitEnvironment | ReleaseDesign
    | LeasePlays | SubmitPlays | ReleasePlay
    | LeaseAudit | Audited
    | TakeBatch | Publish | Checkpointed
    | Evaluated
    | ReportProcesses | Orders | GetStatus
)  # fmt: skip

Response = (
    Ready | Refused | Rehello | Pulse | Done
    | Generated | Overdue | WeightsPart
    | Observed | Faulted | Verdict | Program
    | Designs | Plays | Audits
    | Batch | NotYet | Published | Weights
    | Orders | Status
)  # fmt: skip
