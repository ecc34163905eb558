"""The run at a glance: messages between observers and the replay service."""

from typing import Any

from msgspec import field
from msgspec.structs import asdict

from spade.protocol.base import Request, Role, Wire
from spade.protocol.session import Wait
from spade.protocol.supervision import Process
from spade.protocol.training import Evaluation, StepMetrics


class Counts(Wire, frozen=True):
    """Counts of a run over all restarts of its replay service, and the newest items.

    docs/metrics.md gives the definitions.
    """

    plays: int = 0
    """Finished plays."""

    voids: int = 0
    """Plays that a fault of the environment ended."""

    late_plays: int = 0
    """Plays handed in too late or twice."""

    environments: int = 0
    """Admitted environments."""

    rejected_candidates: int = 0
    """Attempts that failed admission."""

    failed_jobs: int = 0
    """Design jobs without a successful attempt."""

    designer_groups: int = 0
    """Trained groups of designers."""

    expired_leases: int = 0
    """Leases that ran out or lost their holder."""

    released_leases: int = 0
    """Leases that their holder gave back."""

    quarantined: int = 0
    """Trajectories sampled by weights that were never published."""

    audits: int = 0
    """Windows with a finished audit."""

    audit_findings: int = 0
    """Windows that their audit quarantined."""

    audits_left_out: int = 0
    """Windows with an audit that came to no result, or was late."""

    audit_steps: int = 0
    """Steps of environments in all audits."""

    audit_s: float = 0.0
    """Seconds of an env-runner in all audits."""

    lag_mean: float | None = None
    """Mean policy lag in the last batch, in versions."""

    wasted_share: float = 0.0
    """Share of trainable trajectories that were never trained."""

    wasted_share_agent: float = 0.0
    """The same share for agents."""

    wasted_share_designer: float = 0.0
    """The same share for designers."""

    newest_environment: str = ""
    """Name of the environment admitted last."""

    newest_skill: str = ""
    """Skill of the environment admitted last."""

    newest_quarantined: str = ""
    """The last quarantined trajectory, its holder and the fault of its provenance."""

    newest_finding: str = ""
    """Environment and reason of the last audit that failed."""


class SkillFigures(Wire, frozen=True):
    """Figures of one skill or variant, over the same last plays and slots as the figures of the run."""

    win_rate_unhinted: float | None = None
    """Win rate without the hint."""

    win_rate_hinted: float | None = None
    """Win rate with the hint."""

    regret: float | None = None
    """Mean regret."""

    learnable_share: float | None = None
    """Share of learnable slots."""


class Recent(Wire, frozen=True):
    """Figures of the last plays, slots, chunks and candidates. docs/metrics.md gives the definitions.

    None means that the figure was not measured, or not yet.
    """

    validity: float | None = None
    """Share of attempts that were admitted."""

    win_rate_unhinted: float | None = None
    """Win rate without the hint."""

    win_rate_hinted: float | None = None
    """Win rate with the hint."""

    win_rate_error: float | None = None
    """Standard error of `win_rate_unhinted`, clustered by environment."""

    regret: float | None = None
    """Mean return with the hint − mean return without."""

    regret_error: float | None = None
    """Standard error of `regret` over environments."""

    learnable_share: float | None = None
    """Share of slots with an unhinted win rate in [0.2, 0.8]."""

    zero_variance_share: float | None = None
    """Share of unhinted chunks with equal returns."""

    reward_levels: float | None = None
    """Mean number of distinct rewards of an environment."""

    response_tokens: float | None = None
    """Sampled tokens of an unhinted turn."""

    designer_reward: float | None = None
    """Mean reward of designers."""

    examples_shown: float | None = None
    """Mean number of the memory's programs in a designer's prompt."""

    return_gap: dict[str, float] = field(default_factory=dict)
    """Distance between the fast and the slow average of returns, by skill."""

    response_tokens_hinted: float | None = None
    """Sampled tokens of a hinted turn."""

    turns: float | None = None
    """Mean turns of an unhinted episode."""

    turns_hinted: float | None = None
    """Mean turns of a hinted episode."""

    program_lines: float | None = None
    """Mean lines of a program."""

    hidden_variables: float | None = None
    """Mean hidden variables of a program."""

    revealing_share: float | None = None
    """Share of programs with a first observation that reveals the method."""

    diversity: float | None = None
    """Newest diversity of programs."""

    skills: dict[str, SkillFigures] = field(default_factory=dict)
    """Figures by skill."""

    variants: dict[str, SkillFigures] = field(default_factory=dict)
    """Figures by variant of tool use."""

    calls_per_turn: float | None = None
    """Tool calls of an unhinted turn."""

    malformed_share: float | None = None
    """Share of calls that were unreadable or too many."""

    refused_share: float | None = None
    """Share of calls that the tools' schemas refused."""

    done_share: float | None = None
    """Share of instructions that were done."""

    free_share: float | None = None
    """Share of the done instructions that were already met when they were given."""

    similarity: float | None = None
    """Mean similarity of an admitted program to the nearest one of the memory."""


class Traffic(Wire, frozen=True):
    """Figures of the replay service since its restart. docs/metrics.md gives the definitions."""

    plays_per_s: float = 0.0
    """Finished plays per second."""

    sampled_tokens_per_s: float = 0.0
    """Sampled tokens per second."""

    dropped_messages: int = 0
    """Messages that were malformed, or that their sender may not send."""

    strangers: int = 0
    """Connections that failed in the handshake."""

    stalled_s: float = 0.0
    """Seconds without a learner step or play. 0 while the run progresses."""

    broadcast_s: float | None = None
    """Seconds until all engines served the newest version."""

    delivered_tokens: int = 0
    """Tokens of all trajectories handed in, read and sampled."""

    delivered_sampled_tokens: int = 0
    """The sampled tokens among `delivered_tokens`."""


class Histories(Wire, frozen=True):
    """Series with one point for each learner step, newest last, and the evaluations."""

    regret_history: tuple[tuple[float, float], ...] = ()
    """Regret and its error."""

    win_rate_history: tuple[tuple[float, float | None], ...] = ()
    """Unhinted and hinted win rate (None without hinted plays)."""

    evaluations: tuple[Evaluation, ...] = ()
    """The first evaluation and the newest ones."""


class Drawn(Wire, frozen=True):
    """The state of a run's pool."""

    pool_programs: int = 0
    """Programs in the pool."""

    pool_pass: int = 0
    """Number of the present pass, from 1."""

    pool_left: int = 0
    """Programs that this pass has still to draw."""

    pool_rejected: int = 0
    """Programs that failed admission."""

    level_low: float | None = None
    """Mean lowest level of the windows of levels, or None if levels are fixed."""

    level_high: float | None = None
    """Mean highest level of the windows of levels, or None if levels are fixed."""

    levels_capped: int = 0
    """Names with a closed level."""


class Status(Wire, frozen=True):
    """The run at a glance, for `spade status` and the live view. docs/metrics.md gives definitions and units."""

    run: str = ""
    """Name of the run directory."""

    elapsed_s: float = 0.0
    """Seconds that the replay service has been up, over all restarts."""

    learner_step: int = 0
    """Learner step of the newest published weights."""

    policy_version: int = 0
    """Newest policy version."""

    active_environments: int = 0
    """Environments with an open window."""

    memory: int = 0
    """Environments in the memory."""

    backlog: int = 0
    """Trainable sequences that no batch has taken."""

    waiting_for: str = ""
    """The reason why the loop waits now."""

    counts: Counts = Counts()
    """Counts of the run."""

    recent: Recent = Recent()
    """Figures of the last plays and slots."""

    traffic: Traffic = Traffic()
    """Figures of the replay service."""

    step_metrics: StepMetrics | None = None
    """Measurements of the last learner step."""

    processes: tuple[Process, ...] = ()
    """All processes, as their supervisors reported them."""

    wanted: dict[str, dict[Role, int]] = field(default_factory=dict)
    """Number of actors that each supervisor keeps up, by role."""

    waits: tuple[Wait, ...] = ()
    """All waits of one process for another."""

    histories: Histories = Histories()
    """Series by learner step."""

    rollouts: float = 0.0
    """Finished unhinted plays, in rollouts."""

    finished: str = ""
    """The limit that ended the run, or ""."""

    pool: Drawn = Drawn()
    """State of the pool."""

    def flat(self) -> dict[str, Any]:
        """Return all figures by name in one dict, as people and their tools read them."""
        figures = asdict(self)
        for part in ("counts", "recent", "traffic", "histories", "pool"):
            figures |= asdict(figures.pop(part))
        return figures


class GetStatus(Request[Status], frozen=True):
    """Ask for the run at a glance."""
