"""The status of a run: messages between observers and the replay service."""

from typing import Any

from msgspec import field
from msgspec.structs import asdict

from spade.protocol.base import Request, Role, Wire
from spade.protocol.session import Wait
from spade.protocol.supervision import Process
from spade.protocol.training import Evaluation, StepMetrics


class Counts(Wire, frozen=True):
    """Counts of a run, over all restarts of its replay service, and the newest environments and findings.

    docs/metrics.md gives the definitions.
    """

    plays: int = 0
    """Finished plays."""

    voids: int = 0
    """Plays that a fault of the environment ended."""

    late_plays: int = 0
    """Plays that were handed in too late or twice."""

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
    """Windows whose environment an audit quarantined."""

    audits_left_out: int = 0
    """Windows whose audit came to no result or was late."""

    audit_steps: int = 0
    """Steps of environments that all audits played."""

    audit_s: float = 0.0
    """Seconds that all audits took together."""

    lag_mean: float | None = None
    """Mean policy lag in the last batch, in versions."""

    wasted_share: float = 0.0
    """Share of trainable trajectories that were never trained."""

    wasted_share_agent: float = 0.0
    """Share of agents' trainable trajectories that were never trained."""

    wasted_share_designer: float = 0.0
    """Share of designers' trainable trajectories that were never trained."""

    newest_environment: str = ""
    """Name of the environment admitted last."""

    newest_skill: str = ""
    """Skill of the environment admitted last."""

    newest_quarantined: str = ""
    """The last quarantined trajectory: its id, the process that sent it, and what is wrong with its weights."""

    newest_finding: str = ""
    """Environment and reason of the last finding of an audit."""


class SkillFigures(Wire, frozen=True):
    """Figures of one skill or variant, among the last plays and slots from which `Recent` is computed."""

    win_rate_unhinted: float | None = None
    """Win rate without the hint."""

    win_rate_hinted: float | None = None
    """Win rate with the hint."""

    regret: float | None = None
    """Mean regret."""

    learnable_share: float | None = None
    """Share of slots with an unhinted win rate in [0.2, 0.8]."""


class Recent(Wire, frozen=True):
    """Figures of the last plays, slots, chunks and candidates. docs/metrics.md gives the definitions.

    None means that the figure was not measured, at least not yet.
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
    """Mean return with the hint minus mean return without."""

    regret_error: float | None = None
    """Standard error of `regret` over environments."""

    learnable_share: float | None = None
    """Share of slots with an unhinted win rate in [0.2, 0.8]."""

    zero_variance_share: float | None = None
    """Share of unhinted chunks with equal returns."""

    reward_levels: float | None = None
    """Mean number of different rewards that the plays of an environment got."""

    response_tokens: float | None = None
    """Mean number of sampled tokens in an unhinted turn."""

    designer_reward: float | None = None
    """Mean reward of designers."""

    examples_shown: float | None = None
    """Mean number of the memory's programs in a designer's prompt."""

    return_gap: dict[str, float] = field(default_factory=dict)
    """Distance between the fast and the slow moving average of unhinted returns, by skill."""

    response_tokens_hinted: float | None = None
    """Mean number of sampled tokens in a hinted turn."""

    turns: float | None = None
    """Mean number of turns of an unhinted episode."""

    turns_hinted: float | None = None
    """Mean number of turns of a hinted episode."""

    program_lines: float | None = None
    """Mean number of code lines of a program."""

    hidden_variables: float | None = None
    """Mean number of hidden variables of a program (`Measures.hidden_variables`)."""

    revealing_share: float | None = None
    """Share of programs whose first observation states the rule that the player should find out."""

    diversity: float | None = None
    """Diversity of the newest programs, as last measured."""

    skills: dict[str, SkillFigures] = field(default_factory=dict)
    """Figures by skill."""

    variants: dict[str, SkillFigures] = field(default_factory=dict)
    """Figures of each variant of tool use (docs/designing.md)."""

    calls_per_turn: float | None = None
    """Mean number of tool calls in an unhinted turn."""

    malformed_share: float | None = None
    """Share of calls that were unreadable or too many."""

    refused_share: float | None = None
    """Share of calls that the tools' schemas refused."""

    done_share: float | None = None
    """Share of instructions that the players fulfilled."""

    free_share: float | None = None
    """Share of the fulfilled instructions that were already fulfilled when they were given."""

    similarity: float | None = None
    """Mean similarity of an admitted program to the most similar program of the memory."""


class Traffic(Wire, frozen=True):
    """Figures of the replay service since it last started. docs/metrics.md gives the definitions."""

    plays_per_s: float = 0.0
    """Finished plays per second."""

    sampled_tokens_per_s: float = 0.0
    """Sampled tokens per second."""

    dropped_messages: int = 0
    """Messages that were malformed, or whose sender had no right to send them."""

    strangers: int = 0
    """Connections that did not complete the handshake."""

    stalled_s: float = 0.0
    """Seconds since the last learner step or play. 0 while the run progresses."""

    broadcast_s: float | None = None
    """Seconds until all engines served the newest version."""

    delivered_tokens: int = 0
    """Tokens of all trajectories that were handed in, read and sampled."""

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
    """Number of the current pass over the pool, from 1."""

    pool_left: int = 0
    """Programs that the current pass has not drawn yet."""

    pool_rejected: int = 0
    """Programs that failed admission."""

    level_low: float | None = None
    """Lowest level of difficulty of a program's window, averaged over the programs. None if levels are fixed."""

    level_high: float | None = None
    """Highest level of difficulty of a program's window, averaged over the programs. None if levels are fixed."""

    levels_capped: int = 0
    """Number of programs with a closed level."""


class Status(Wire, frozen=True):
    """The status of a run, for `spade status` and the live view. docs/metrics.md gives definitions and units."""

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
    """Reason why the run waits now, in words."""

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
    """Finished unhinted plays, in rollouts. A rollout is one chunk of plays of every active environment."""

    finished: str = ""
    """The limit that ended the run, or ""."""

    pool: Drawn = Drawn()
    """State of the pool of programs, if the run plays one."""

    def flat(self) -> dict[str, Any]:
        """Return all figures by name in one dict, without the nesting into parts."""
        figures = asdict(self)
        for part in ("counts", "recent", "traffic", "histories", "pool"):
            figures |= asdict(figures.pop(part))
        return figures


class GetStatus(Request[Status], frozen=True):
    """Ask for the status of the run."""
