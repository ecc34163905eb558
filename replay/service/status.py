"""Build the status of a run from its state and the service's view of its peers. Make a row of `metrics.jsonl` of it."""

from statistics import fmean

import msgspec

from replay.ledger import batches
from replay.ledger.ledger import Ledger
from replay.ledger.pacing import count_rollouts, describe_reached
from replay.ledger.state import RunState
from replay.service.why import explain_pool_limit
from spade.pools import Drawing, Levels
from spade.protocol import Counts, Drawn, Histories, Process, Recent, Role, Status, Traffic, Wait

NOT_IN_ROWS = ("step_metrics", "processes", "wanted", "waits", *Histories.__struct_fields__)


class PeersView(msgspec.Struct, frozen=True):
    """The service's view of its peers at one moment. The run's state does not hold it."""

    run: str
    """The run's name."""
    now: float
    """The run clock."""
    traffic: Traffic
    roles: frozenset[Role]
    """The roles that are connected now."""
    processes: tuple[Process, ...]
    wanted: dict[str, dict[Role, int]]
    """Number of actors of each role that each connected supervisor keeps running."""
    waits: tuple[Wait, ...]


def build_status(ledger: Ledger, view: PeersView) -> Status:
    """Return the Status of a run. `docs/metrics.md` defines names, units and windows."""
    state = ledger.state
    history, finished = state.history, describe_reached(state, view.now)
    return Status(
        run=view.run,
        elapsed_s=view.now,
        learner_step=state.published_step,
        policy_version=state.version,
        active_environments=len(state.environments),
        memory=len(state.memory),
        backlog=batches.count_waiting(state),
        waiting_for=f"nothing: the run is finished, {finished}" if finished else describe_waiting(state, view.roles),
        rollouts=count_rollouts(state),
        finished=finished,
        counts=msgspec.convert(state.counters, Counts, from_attributes=True),
        recent=_compute_recent(state),
        traffic=view.traffic,
        step_metrics=None if state.counters.newest is None else state.counters.newest.metrics,
        processes=view.processes,
        wanted=view.wanted,
        waits=view.waits,
        pool=_describe_drawing(state.pool, state.levels),
        histories=Histories(tuple(history.regret), tuple(history.win_rates), tuple(history.evaluations)),
    )


def _describe_drawing(pool: Drawing | None, levels: Levels | None) -> Drawn:
    if pool is None:
        return Drawn()
    drawn = Drawn(len(pool.pool.entries), pool.draws.number + 1, pool.left, len(pool.draws.rejected))
    if levels is None:
        return drawn
    windows = levels.windows.values()
    low, high = fmean(each.low for each in windows), fmean(each.high for each in windows)
    return msgspec.structs.replace(drawn, level_low=low, level_high=high, levels_capped=len(levels.capped))


def _compute_recent(state: RunState) -> Recent:
    return msgspec.structs.replace(
        state.statistics.recent(),
        return_gap={skill: abs(each.fast - each.slow) for skill, each in state.counters.averages.items()},
        diversity=None if state.history.diversity is None else state.history.diversity.share,
    )


def describe_waiting(state: RunState, roles: frozenset[Role]) -> str:
    """Describe what the training loop waits for now."""
    needed: tuple[tuple[Role, str], ...] = (
        ("learner", "a learner"),
        ("engine", "an engine"),
        ("designer", "a designer") if state.pool is None else ("curator", "a curator"),
        ("env-runner", "an env-runner"),
        ("agent", "an agent"),
    )
    missing = [words for role, words in needed if role not in roles]
    if missing:
        return "waiting for " + ", ".join(missing) + " to connect"
    if state.version == 0:
        return "waiting for the learner's first weights"
    queued, batch = batches.count_waiting(state), state.config.learner.batch_sequences
    if state.version_at(state.counters.taken_step + 1) > state.version:
        return f"learner step {state.counters.taken_step} is running, {queued} of {batch} sequences wait for the next"
    playing = sum(1 for _ in state.flight)
    empty = state.config.design.active_environments - len(state.environments) - len(state.jobs)
    pool = (
        f"; {empty} slots are empty: {explain_pool_limit(state.pool)}" if state.pool is not None and empty > 0 else ""
    )
    return f"{queued} of {batch} sequences for step {state.counters.taken_step + 1}, {playing} plays in flight{pool}"


def make_metrics_row(status: Status) -> dict[str, object]:
    """Return the figures of a status and of its learner step, by name."""
    gauges = {name: value for name, value in status.flat().items() if name not in NOT_IN_ROWS}
    step = {} if status.step_metrics is None else msgspec.structs.asdict(status.step_metrics)
    return gauges | step
