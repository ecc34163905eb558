"""The reasons why the replay service cannot hand out work, and the peers it waits for. Pure."""

from collections.abc import Iterable, Sequence

import msgspec

from replay.ledger import batches
from replay.ledger.keys import name_of
from replay.ledger.ledger import Ledger
from replay.ledger.state import RunState
from spade.pools import Drawing
from spade.protocol import Wait

NAME = "replay"  # processes report this name if they wait for the replay service


def explain_waits(waits: Iterable[Wait], ledger: Ledger) -> tuple[Wait, ...]:
    """Return the waits. If a process waits for work of this service, add the reason why there is none."""
    audits = f"{len(ledger.state.audits)} audits are leased" if ledger.state.audits else "no environment needs an audit"
    reasons = {
        "LeaseAudit": audits,
        "TakeBatch": explain_no_batch(ledger),
        "LeasePlays": explain_no_play(ledger),
        "LeaseDesigns": explain_no_job(ledger),
    }
    return tuple(
        msgspec.structs.replace(wait, why=reasons.get(wait.what, "")) if wait.holder == NAME else wait for wait in waits
    )


def explain_no_batch(ledger: Ledger) -> str:
    """Explain why the next batch is not ready."""
    state = ledger.state
    return (
        _explain_unpublished(state)
        or f"{batches.count_waiting(state)} of {state.config.learner.batch_sequences} sequences"
    )


def explain_no_play(ledger: Ledger) -> str:
    """Explain why no play is leased."""
    state = ledger.state
    if missing := _explain_unpublished(state):
        return missing
    if not state.environments:
        return f"no environment is active; {len(state.jobs)} design jobs are open or leased"
    open_plays = sum(play.state == "open" for play in state.plays.values())
    if open_plays:
        return f"{open_plays} plays are held back while {ledger.load().outstanding} sequences are to be trained"
    leased = sum(1 for _ in state.flight)
    return f"{leased} plays are leased, the next chunks open with newer weights"


def explain_no_job(ledger: Ledger) -> str:
    """Explain why no design job is leased."""
    state = ledger.state
    if missing := _explain_unpublished(state):
        return missing
    slots = state.config.design.active_environments
    if state.pool is not None and len(state.environments) + len(state.jobs) < slots:
        return f"{len(state.environments)} of {slots} slots have an environment; {explain_pool_limit(state.pool)}"
    audited = f" ({len(state.audits)} of them in an audit)" if state.audits else ""
    have = f"{len(state.environments)} of {slots} slots have an environment{audited}"
    return f"{have}, {len(state.jobs)} have a leased job"


def explain_pool_limit(pool: Drawing) -> str:
    """Explain why no program of a pool can be drawn."""
    if not pool.playable:
        return f"all {len(pool.pool.entries)} programs of the pool were rejected (`spade env ls RUN --rejected`)"
    rejected = len(pool.draws.rejected)
    without = f", {rejected} more were rejected" if rejected else ""
    return f"each of the {pool.playable} programs of the pool is played once at a time{without}"


def list_own(state: RunState, now: float) -> tuple[Wait, ...]:
    """Return waits for the processes that have work now: the holders of leases, and the learner while it trains."""
    play_s, design_s = state.config.play.lease_s, state.config.design.lease_s
    plays = [(play.holder, now - play.deadline + play_s) for play in state.flight]
    jobs = [(job.holder, now - job.deadline + design_s) for job in state.job_leases]
    step = state.counters.taken_step
    training_since = state.batches[step].at if step in state.batches and step > state.published_step else None
    learner = () if training_since is None else (Wait("learner", f"step {step}", 1, now - training_since, NAME),)
    audits = [(audit.holder, now - audit.deadline + play_s) for audit in state.audit_leases]
    return (
        *learner,
        *_list_holders("plays", plays),
        *_list_holders("design jobs", jobs),
        *_list_holders("audits", audits),
    )


def _list_holders(what: str, leases: Sequence[tuple[str, float]]) -> tuple[Wait, ...]:
    """Return one wait for each holder of leases. `leases` are given as (holder, age in s)."""
    ages: dict[str, list[float]] = {}
    for holder, age in leases:
        ages.setdefault(name_of(holder), []).append(age)
    return tuple(Wait(holder, what, len(each), max(each), NAME) for holder, each in ages.items())


def _explain_unpublished(state: RunState) -> str:
    return "the learner has published no weights yet" if state.version == 0 else ""


class Progress:
    """The last progress of a run: a learner step or a play. A run without progress for `stall_s` has stalled."""

    def __init__(self, stall_s: float, now: float) -> None:
        self._stall_s = stall_s
        self._reached = (0, 0)
        self._since = now
        self._stalled = False

    def look(self, step: int, plays: int, now: float) -> bool:
        """Record the progress of the run. Returns True once when the run stalls."""
        if (step, plays) != self._reached:
            self._reached, self._since = (step, plays), now
        before, self._stalled = self._stalled, now - self._since >= self._stall_s
        return self._stalled and not before

    def stalled_s(self, now: float) -> float:
        """Return the seconds since the last progress of a stalled run, else 0."""
        return now - self._since if self._stalled else 0.0
