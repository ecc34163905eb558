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

    docs/metrics.md defines each field.
    """

    plays: int = 0
    voids: int = 0
    late_plays: int = 0
    environments: int = 0
    rejected_candidates: int = 0
    failed_jobs: int = 0
    designer_groups: int = 0
    expired_leases: int = 0
    released_leases: int = 0
    quarantined: int = 0
    audits: int = 0
    audit_findings: int = 0
    audits_left_out: int = 0
    audit_steps: int = 0
    audit_s: float = 0.0
    lag_mean: float | None = None
    wasted_share: float = 0.0
    wasted_share_agent: float = 0.0
    wasted_share_designer: float = 0.0
    newest_environment: str = ""
    newest_skill: str = ""
    newest_quarantined: str = ""
    newest_finding: str = ""


class SkillFigures(Wire, frozen=True):
    """Figures of one skill or variant, over the same last plays and slots as the figures of the run."""

    win_rate_unhinted: float | None = None
    win_rate_hinted: float | None = None
    regret: float | None = None
    learnable_share: float | None = None


class Recent(Wire, frozen=True):
    """Figures of the last plays, slots, chunks and candidates. docs/metrics.md defines each field.

    None: never measured, or not yet.
    """

    validity: float | None = None
    win_rate_unhinted: float | None = None
    win_rate_hinted: float | None = None
    win_rate_error: float | None = None
    regret: float | None = None
    regret_error: float | None = None
    learnable_share: float | None = None
    zero_variance_share: float | None = None
    reward_levels: float | None = None
    response_tokens: float | None = None
    designer_reward: float | None = None
    examples_shown: float | None = None
    return_gap: dict[str, float] = field(default_factory=dict)
    """Distance between the fast and the slow average of returns, by skill."""

    response_tokens_hinted: float | None = None
    turns: float | None = None
    turns_hinted: float | None = None
    program_lines: float | None = None
    hidden_variables: float | None = None
    revealing_share: float | None = None
    diversity: float | None = None
    skills: dict[str, SkillFigures] = field(default_factory=dict)
    """Figures by skill."""

    variants: dict[str, SkillFigures] = field(default_factory=dict)
    """Figures by variant of tool use."""

    calls_per_turn: float | None = None
    malformed_share: float | None = None
    refused_share: float | None = None
    done_share: float | None = None
    free_share: float | None = None
    similarity: float | None = None


class Traffic(Wire, frozen=True):
    """Figures of the replay service since its restart. docs/metrics.md defines each field."""

    plays_per_s: float = 0.0
    sampled_tokens_per_s: float = 0.0
    dropped_messages: int = 0
    strangers: int = 0
    stalled_s: float = 0.0
    broadcast_s: float | None = None


class Histories(Wire, frozen=True):
    """Series with one point for each learner step, newest last, and the evaluations."""

    regret_history: tuple[tuple[float, float], ...] = ()
    """Regret and its error."""

    win_rate_history: tuple[tuple[float, float | None], ...] = ()
    """Unhinted and hinted win rate. The hinted rate is None without hinted plays."""

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
    """The run at a glance, for `spade status` and the live view. docs/metrics.md defines names and units."""

    run: str = ""
    elapsed_s: float = 0.0
    learner_step: int = 0
    policy_version: int = 0
    active_environments: int = 0
    memory: int = 0
    backlog: int = 0
    waiting_for: str = ""
    counts: Counts = Counts()
    recent: Recent = Recent()
    traffic: Traffic = Traffic()
    step_metrics: StepMetrics | None = None
    processes: tuple[Process, ...] = ()
    """All processes, as their supervisors reported them."""

    wanted: dict[str, dict[Role, int]] = field(default_factory=dict)
    """Number of actors that each supervisor keeps up, by role."""

    waits: tuple[Wait, ...] = ()
    """All waits of one process for another."""

    histories: Histories = Histories()
    rollouts: float = 0.0
    finished: str = ""
    pool: Drawn = Drawn()

    def flat(self) -> dict[str, Any]:
        """Return all figures by name in one dict, as people and their tools read them."""
        figures = asdict(self)
        for part in ("counts", "recent", "traffic", "histories", "pool"):
            figures |= asdict(figures.pop(part))
        return figures


class GetStatus(Request[Status], frozen=True):
    """Ask for the run at a glance."""
