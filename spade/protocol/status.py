"""The run at a glance: observers and the replay service."""

from typing import Any

from msgspec import field
from msgspec.structs import asdict

from spade.protocol.base import Request, Role, Wire
from spade.protocol.session import Wait
from spade.protocol.supervision import Process
from spade.protocol.training import Evaluation, StepMetrics


class Counts(Wire, frozen=True):
    """Counts of a run, over all restarts of its replay service, and the newest of each kind."""

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
    """Figures of one skill, or of one variant, over the same last plays and slots as those of the run."""

    win_rate_unhinted: float | None = None
    win_rate_hinted: float | None = None
    regret: float | None = None
    learnable_share: float | None = None


class Recent(Wire, frozen=True):
    """Figures of the last plays, slots, chunks and candidates; None: not measured, or not yet.

    `return_gap` is by skill.
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
    response_tokens_hinted: float | None = None
    turns: float | None = None
    turns_hinted: float | None = None
    program_lines: float | None = None
    hidden_variables: float | None = None
    revealing_share: float | None = None
    diversity: float | None = None
    skills: dict[str, SkillFigures] = field(default_factory=dict)
    variants: dict[str, SkillFigures] = field(default_factory=dict)
    calls_per_turn: float | None = None
    malformed_share: float | None = None
    refused_share: float | None = None
    done_share: float | None = None
    free_share: float | None = None
    similarity: float | None = None


class Traffic(Wire, frozen=True):
    """Figures of the replay service since its restart; rates are per second."""

    plays_per_s: float = 0.0
    sampled_tokens_per_s: float = 0.0
    dropped_messages: int = 0
    strangers: int = 0
    stalled_s: float = 0.0
    broadcast_s: float | None = None


class Histories(Wire, frozen=True):
    """A point a learner step, the newest last: regret and its error, win rates unhinted and hinted; evaluations.

    The hinted one is None where nothing was played with a hint.
    """

    regret_history: tuple[tuple[float, float], ...] = ()
    win_rate_history: tuple[tuple[float, float | None], ...] = ()
    evaluations: tuple[Evaluation, ...] = ()


class Drawn(Wire, frozen=True):
    """A run's pool: its programs, the present pass from 1, programs this pass has still to draw, and those rejected."""

    pool_programs: int = 0
    pool_pass: int = 0
    pool_left: int = 0
    pool_rejected: int = 0


class Status(Wire, frozen=True):
    """The run at a glance, for `spade status` and the live view; names and units as in `docs/metrics.md`."""

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
    wanted: dict[str, dict[Role, int]] = field(default_factory=dict)
    waits: tuple[Wait, ...] = ()
    histories: Histories = Histories()
    rollouts: float = 0.0
    finished: str = ""
    pool: Drawn = Drawn()

    def flat(self) -> dict[str, Any]:
        """All figures by name, as people and their tools read them."""
        figures = asdict(self)
        for part in ("counts", "recent", "traffic", "histories", "pool"):
            figures |= asdict(figures.pop(part))
        return figures


class GetStatus(Request[Status], frozen=True):
    """Ask for the run at a glance."""
