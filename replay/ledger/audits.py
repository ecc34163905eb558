"""Audit windows that are over: keep recordings, lease audits, take their outcomes, and give up late audits.

An audit repeats recorded plays, and plays random actions on instances that were won. If the program's answers depend on
more than seed and actions, or if random actions win too, the environment is quarantined and its designer earns nothing.
An audit also plays the actions of `solution()` on instances that nobody won. Losses that the solution cannot avoid
count as void.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Literal

from replay.ledger.keys import compute_instance_number, group_id
from replay.ledger.records import Audit, Environment, PlayRecord
from replay.ledger.reward import ENDED
from replay.ledger.state import RunState
from spade.codec import encode
from spade.protocol import Audited, AuditJob, RecordedPlay, Recording, UnaidedInstance
from spade.returns import is_won

LEASES = 3
"""An audit that gave no outcome under this many leases is given up."""
FINDING_CHARACTERS = 500
HONEST_DEVIATIONS = 2.33
"""The wins of random plays are a finding from this many standard deviations over half of the plays. In an honest
environment that random actions win half of the time, one of a hundred audits has such a finding."""
LEAST_INSTANCES = 8
"""`count_lucky` needs this many instances with several plays. With fewer, equal outcomes on each instance prove
nothing."""


Outcome = Literal["passed", "failed", "left out"]


def record(state: RunState, play: PlayRecord, recording: Recording) -> None:
    """Keep the recording of a finished play as long as an audit would repeat the play.

    An audit repeats the first `audit.replays` plays of each arm, in an order drawn from the run's secret, so nobody can
    predict them. Other recordings are not kept, nor recordings so large that the audit's job might exceed a message.
    """
    if not state.config.audit.replays or len(encode(recording)) > _compute_largest(state):
        return
    kept = state.recordings.setdefault(play.environment, {})
    kept[play.id] = recording
    state.touch("recordings", play.id, recording)
    arm = [each for each in kept if state.plays[each].hinted == play.hinted]
    for dropped in sorted(arm, key=lambda each: state.seed("audit: replay", each))[state.config.audit.replays :]:
        del kept[dropped]
        state.delete("recordings", dropped)


def _compute_largest(state: RunState) -> int:
    """Return the size limit of a recording. With it, the recordings of both arms fill at most half of a message."""
    return state.config.bus.max_message_bytes // (4 * state.config.audit.replays)


def suspicious_wins(plays: int) -> int:
    """Return how many of `plays` random plays must be won to count as a finding: for example 13 of 16. If there are
    few plays, all must be won."""
    return max(1, min(plays, math.ceil((plays + HONEST_DEVIATIONS * math.sqrt(plays)) / 2)))


def begin(state: RunState, environment: Environment, now: float) -> bool:
    """Open the audit of an environment whose plays have all ended. Returns False if nothing can be audited."""
    finished = _list_finished(state, environment)
    won = [play for play in finished if is_won(play.episode_return, _get_win_return(state))]
    numbers = {compute_instance_number(environment, play) for play in won}
    indices = sorted(numbers, key=lambda index: state.seed("audit: instance", environment.id, index))
    count = state.config.audit.random_plays if indices else 0
    replays = sorted(state.recordings.get(environment.id, {}), key=lambda each: state.seed("audit: replay", each))
    if not (replays or count):
        return False
    drawn = tuple(indices[i % len(indices)] for i in range(count))
    # `lost` and `unaided` only check a designer's reward. Nobody designed a pool's program, so they stay empty.
    most = 0 if environment.program else state.config.audit.solutions

    def draw(plays: Iterable[PlayRecord], purpose: str) -> tuple[int, ...]:
        indices = {compute_instance_number(environment, play) for play in plays}
        return tuple(sorted(indices, key=lambda index: state.seed(purpose, environment.id, index))[:most])

    # `lost` corrects the difficulty anchor, which is 0 anyway if no play was won.
    # `unaided` checks the regret, which exists only with a hint.
    lost = _list_unwon(environment, finished, _get_win_return(state)) if won else []
    unaided = _list_unaided(environment, finished, _get_win_return(state)) if state.sources[environment.id].hint else []
    environment.audit = Audit(
        environment.id,
        now,
        tuple(replays),
        drawn,
        lost=draw(lost, "audit: lost instance"),
        unaided=draw(unaided, "audit: unaided instance"),
    )
    take_up(state, environment)
    state.touch("environments", environment.id, environment)
    return True


def _list_finished(state: RunState, environment: Environment) -> list[PlayRecord]:
    plays = (play for chunk in environment.chunks for play in state.flight.tally(environment, chunk).plays)
    return [play for play in plays if play.state == "finished"]


def _list_unaided(environment: Environment, finished: Sequence[PlayRecord], win_return: float) -> list[PlayRecord]:
    """Return the unhinted plays on instances that no unhinted play won."""
    return _list_unwon(environment, [play for play in finished if not play.hinted], win_return)


def _list_unwon(environment: Environment, plays: Sequence[PlayRecord], win_return: float) -> list[PlayRecord]:
    """Return the lost unhinted plays on instances that none of `plays` won."""
    finished = [play for play in plays if play.state == "finished"]
    won = {compute_instance_number(environment, p) for p in finished if is_won(p.episode_return, win_return)}
    return [play for play in finished if not play.hinted and compute_instance_number(environment, play) not in won]


def count_lucky(environment: Environment, plays: Sequence[PlayRecord], win_return: float) -> int:
    """Return the number of lost unhinted plays that count as void, because nobody can win their instances.

    Only losses on instances that no play won can be void. If the audit played the solution on N of these instances and
    it lost n, then n / N of the losses are void, rounded up. If the solution lists no actions, all losses are void. But
    none is void if an instance was both won and lost, or if fewer than LEAST_INSTANCES have several plays.
    """
    audit = environment.audit
    if audit is None or audit.state != "passed" or not audit.lost:
        return 0
    losses = len(_list_unwon(environment, plays, win_return))
    if audit.tried:
        return -(-losses * (audit.tried - audit.solved) // audit.tried)  # rounded up
    outcomes: defaultdict[int, list[bool | None]] = defaultdict(list)
    for play in plays:
        if play.state in ENDED:
            won = is_won(play.episode_return, win_return) if play.state == "finished" else None
            outcomes[compute_instance_number(environment, play)].append(won)
    several = [each for each in outcomes.values() if len(each) > 1]
    mixed = any({True, False} <= set(each) for each in several)
    return 0 if mixed or len(several) < LEAST_INSTANCES else losses


def take_up(state: RunState, environment: Environment) -> None:
    """Add an open audit to the run's audits."""
    audit = environment.audit
    assert audit is not None
    state.audits[environment.id] = audit
    state.audit_leases.add(audit)


def lease(state: RunState, holder: str, request: int, now: float) -> AuditJob | None:
    """Lease the open audit that began first. Returns None if no audit is open."""
    if held := state.audit_leases.held(holder, request):
        return _make_job(state, held[0])
    audit = state.audit_leases.next()
    if audit is None:
        return None
    state.audit_leases.lease(audit, holder, request, now + state.config.play.lease_s)
    state.touch("environments", audit.id, state.environments[audit.id])
    return _make_job(state, audit)


def _make_job(state: RunState, audit: Audit) -> AuditJob:
    recordings, settings, environment = state.recordings.get(audit.id, {}), state.config, state.environments[audit.id]

    def instance(number: int) -> int:
        return state.instance(audit.id, number)

    return AuditJob(
        environment=audit.id,
        lease=audit.lease,
        source=state.sources[audit.id].source,
        replays=tuple(
            RecordedPlay(
                play.id, instance(compute_instance_number(environment, play)), recordings[play.id], play.hinted
            )
            for play in map(state.plays.__getitem__, audit.replays)
        ),
        seeds=tuple(instance(index) for index in audit.indices),
        wins=suspicious_wins(settings.audit.random_plays),
        win_return=_get_win_return(state),
        max_turns=settings.play.max_turns,
        draw=state.seed("audit", audit.id, audit.lease),
        within_s=settings.play.lease_s,
        reads=state.sources[audit.id].reads,
        lost=tuple(instance(index) for index in audit.lost),
        hint=state.sources[audit.id].hint,
        unaided=tuple(
            UnaidedInstance(instance(index), _find_best(state, environment, index)) for index in audit.unaided
        ),
    )


def _find_best(state: RunState, environment: Environment, index: int) -> float:
    """Return the greatest unhinted return on an instance."""
    return max(
        play.episode_return
        for play in _list_finished(state, environment)
        if not play.hinted and compute_instance_number(environment, play) == index
    )


def finish(state: RunState, audited: Audited) -> Environment | None:
    """Record the outcome of an audit. Returns the environment to close, or None if the audit is over already."""
    audit = state.audits.get(audited.environment)
    if audit is None or not 1 <= audited.lease <= audit.lease:
        return None
    audit.steps, audit.seconds = audited.steps, audited.seconds
    audit.tried, audit.solved = audited.tried, audited.solved
    if audited.finding:
        return _end(state, audit, "failed", audited.finding[:FINDING_CHARACTERS])
    if audited.left_out:
        return _end(state, audit, "left out", f"{audited.left_out} recorded plays came to no result")
    if audited.cut_off:
        return _end(state, audit, "left out", "its time was over before all checks were made")
    if audited.undecided:
        return _end(
            state, audit, "left out", f"{audited.undecided} checks of its hint or its solution came to no result"
        )
    lost, most_wins = audited.plays - audited.wins, suspicious_wins(state.config.audit.random_plays) - 1
    if audit.indices and lost < len(audit.indices) - most_wins:
        return _end(state, audit, "left out", f"only {audited.plays} random plays came to a result")
    unsolved = audited.solved < audited.tried
    note = f"its solution won {audited.solved} of {audited.tried} instances that nobody won" if unsolved else ""
    return _end(state, audit, "passed", note)


def expire(state: RunState, now: float, live: frozenset[str] | None) -> list[Environment]:
    """Reopen audits whose lease is lost, and return the environments of audits that are given up.

    `live` has the connected holders, or None if they are unknown.
    """
    given_up, lost = [], {audit.id for audit in state.audit_leases.lost(now, live)}
    for audit in sorted(state.audits.values(), key=lambda each: (each.began_at, each.id)):
        environment = state.environments[audit.id]
        if now >= _compute_deadline(state, environment):
            given_up.append(_end(state, audit, "left out", "it was not over at the deadline of its round"))
        elif audit.id in lost and audit.lease >= LEASES:
            given_up.append(_end(state, audit, "left out", f"it gave no result under {LEASES} leases"))
        elif audit.id in lost:
            state.counters.expired_leases += 1
            state.audit_leases.release(audit)
            state.touch("environments", audit.id, environment)
    return given_up


def _compute_deadline(state: RunState, environment: Environment) -> float:
    """Return the time at which an audit is given up: the deadline of its designer group.

    A program of a pool has no designer group. Its deadline is `design.round_deadline_s` after its environment opened.
    """
    if environment.program:
        return environment.opened_at + state.config.design.round_deadline_s
    return state.design_groups[group_id(environment.round, environment.skill)].deadline


def _end(state: RunState, audit: Audit, outcome: Outcome, finding: str) -> Environment:
    state.audit_leases.drop(audit)
    audit.state, audit.finding = outcome, finding
    del state.audits[audit.id]
    environment, counters = state.environments[audit.id], state.counters
    counters.audits += 1
    counters.audit_findings += outcome == "failed"
    counters.audits_left_out += outcome == "left out"
    counters.audit_steps += audit.steps
    counters.audit_s += audit.seconds
    if outcome == "failed":
        counters.newest_finding = f"{environment.id}: {finding}"
    state.touch("environments", environment.id, environment)
    return environment


def _get_win_return(state: RunState) -> float:
    return state.config.play.win_return
