"""The status of a run, from the state and the service's own view: as `Status`, and as a row of `metrics.jsonl`."""

import msgspec

from replay.ledger import batches
from replay.ledger.ledger import Ledger
from replay.ledger.state import State
from spade.protocol import Process, Role, Status, Wait

NOT_IN_ROWS = ("step_metrics", "processes", "regret_history", "win_rate_history", "wanted", "waits", "evaluations")


class Seen(msgspec.Struct, frozen=True):
    """The service's view beside the state. Rates are per second; `roles` are those connected now."""

    run: str
    now: float
    plays_per_s: float
    sampled_tokens_per_s: float
    dropped: int
    strangers: int
    roles: frozenset[Role]
    processes: tuple[Process, ...]
    wanted: dict[str, dict[Role, int]]
    waits: tuple[Wait, ...]
    stalled_s: float
    broadcast_s: float | None


def build_status(ledger: Ledger, seen: Seen) -> Status:
    """The Status of a run; names, units and windows as in `docs/metrics.md`."""
    state = ledger.state
    counters, statistics = state.counters, state.statistics
    unhinted, unhinted_error = statistics.win_rate(hinted=False)
    regret, regret_error = statistics.regret()
    return Status(
        run=seen.run,
        elapsed_s=seen.now,
        learner_step=state.published_step,
        policy_version=state.version,
        plays=counters.plays,
        plays_per_s=seen.plays_per_s,
        sampled_tokens_per_s=seen.sampled_tokens_per_s,
        environments=counters.environments,
        active_environments=len(state.environments),
        rejected_candidates=counters.rejected_candidates,
        failed_jobs=counters.failed_jobs,
        validity=statistics.validity(),
        win_rate_unhinted=unhinted,
        win_rate_hinted=statistics.win_rate(hinted=True)[0],
        win_rate_error=unhinted_error,
        regret=regret,
        regret_error=regret_error,
        learnable_share=statistics.learnable_share(),
        lag_mean=counters.lag_mean,
        wasted_share=counters.wasted_share(),
        zero_variance_share=statistics.zero_variance_share(),
        reward_levels=statistics.reward_levels(),
        response_tokens=statistics.response_tokens(),
        designer_groups=counters.designer_groups,
        designer_reward=statistics.designer_reward(),
        waiting_for=waiting_for(state, seen.roles),
        memory=len(state.memory),
        voids=counters.voids,
        expired_leases=counters.expired_leases,
        released_leases=counters.released_leases,
        late_plays=counters.late_plays,
        dropped_messages=seen.dropped,
        strangers=seen.strangers,
        newest_environment=counters.newest_environment,
        newest_skill=counters.newest_skill,
        step_metrics=None if counters.newest is None else counters.newest.metrics,
        processes=seen.processes,
        backlog=batches.waiting(state),
        wanted=seen.wanted,
        waits=seen.waits,
        stalled_s=seen.stalled_s,
        quarantined=counters.quarantined,
        newest_quarantined=counters.newest_quarantined,
        broadcast_s=seen.broadcast_s,
        regret_history=tuple(state.history.regret),
        win_rate_history=tuple(state.history.win_rates),
        evaluations=tuple(state.history.evaluations),
        audits=counters.audits,
        audit_findings=counters.audit_findings,
        audits_left_out=counters.audits_left_out,
        audit_steps=counters.audit_steps,
        audit_s=counters.audit_s,
        newest_finding=counters.newest_finding,
        examples_shown=statistics.examples_shown(),
        wasted_share_agent=counters.wasted_share("agent"),
        wasted_share_designer=counters.wasted_share("designer"),
    )


def waiting_for(state: State, roles: frozenset[Role]) -> str:
    """The reason why the loop waits now, in words."""
    needed: tuple[tuple[Role, str], ...] = (
        ("learner", "a learner"),
        ("engine", "an engine"),
        ("designer", "a designer"),
        ("env-runner", "an env-runner"),
        ("agent", "an agent"),
    )
    missing = [words for role, words in needed if role not in roles]
    if missing:
        return "waiting for " + ", ".join(missing) + " to connect"
    if state.version == 0:
        return "waiting for the learner's first weights"
    queued, batch = batches.waiting(state), state.config.learner.batch_sequences
    if state.version_at(state.counters.taken_step + 1) > state.version:
        return f"learner step {state.counters.taken_step} is running, {queued} of {batch} sequences wait for the next"
    playing = sum(1 for _ in state.flight.leases)
    return f"{queued} of {batch} sequences for step {state.counters.taken_step + 1}, {playing} plays in flight"


def metrics_row(status: Status) -> dict[str, object]:
    """The figures of a status and of its learner step, by name."""
    gauges = {name: value for name, value in msgspec.structs.asdict(status).items() if name not in NOT_IN_ROWS}
    step = {} if status.step_metrics is None else msgspec.structs.asdict(status.step_metrics)
    return gauges | step
