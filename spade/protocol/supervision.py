"""Supervisors, observers and the replay service."""

from msgspec import field

from spade.protocol.base import Gauges, Many, Name, ProcessState, Request, Role, Wire
from spade.protocol.session import Done, Wait
from spade.protocol.training import Evaluation, StepMetrics


class Process(Wire, frozen=True):
    """A process as its supervisor sees it; `gauges` are those of its last heartbeat to the replay service."""

    name: str
    role: Role
    pid: int
    state: ProcessState
    restarts: int
    detail: str = ""
    gauges: Gauges = field(default_factory=dict)
    supervisor: str = ""


class Orders(Request[Done], frozen=True):
    """What a supervisor is to change: how many actors of a role to keep up, and which to drain by name.

    Sent to the replay service (Refused: no such supervisor keeps actors), which hands it to the supervisor with the
    answer to its next report. Kept in memory alone: who orders looks at the status for its effect,
    and orders again where there is none.
    """

    supervisor: str
    counts: dict[Role, int] = field(default_factory=dict)
    drain: tuple[str, ...] = ()


class ReportProcesses(Request[Orders], frozen=True):
    """A supervisor's children, and how many actors of each role it keeps up (None: none at all)."""

    supervisor: Name
    processes: Many[Process]
    wanted: dict[Role, int] | None = None


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
    wanted: dict[str, dict[Role, int]] = field(default_factory=dict)
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


class GetStatus(Request[Status], frozen=True):
    """Ask for the run at a glance."""
