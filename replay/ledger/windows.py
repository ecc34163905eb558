"""Windows of active environments: chunks open, plays are leased and end, chunks are scored, the window closes.

A window is audited after its last play and before it closes.
"""

from replay.ledger import audits, provenance
from replay.ledger.batches import enqueue
from replay.ledger.designs import close_member, fail_program
from replay.ledger.keys import compute_instance_number, make_chunk_id, make_memory_key, play_id
from replay.ledger.records import Chunk, Environment, Member, MemoryEntry, PlayRecord, Score
from replay.ledger.reward import add_to_averages, score_of
from replay.ledger.state import RunState
from replay.ledger.statistics import PlayFigures, SlotFigures
from spade.protocol import Audited, EndedPlay, PlayLease
from spade.returns import has_different_returns, is_won

LEVELS = 256
VOID_SHARE = 0.25  # largest share of faulty plays in a window; above it the program is quarantined
SUSPECTED = 2  # a play is void after this many leases under which a service crashed while it served the play


def open_chunk(state: RunState, environment: Environment, now: float) -> None:
    """Open the next chunk with its G unhinted plays.

    Chunk 0 also gets their hinted twins if there is a hint to play with.
    """
    index = len(environment.chunks)
    first = sum(state.flight.tally(environment, before).unhinted for before in environment.chunks)
    chunk = Chunk(index, now, state.version)
    environment.chunks.append(chunk)
    state.flight.open(environment, chunk)
    chunk_name = make_chunk_id(environment.id, index)
    twins = index == 0 and state.config.hinted and bool(state.sources[environment.id].hint)
    for hinted in (False, True) if twins else (False,):
        for i in range(state.config.play.group_size):
            play = PlayRecord(play_id(chunk_name, hinted, i), environment.id, index, first + i, hinted)
            state.add_play(play)
            state.touch("plays", play.id, play)
    state.touch("environments", environment.id, environment)


def open_chunks(state: RunState, now: float, starving: bool) -> None:
    """Open the next chunk of every environment for which it is due.

    It is due when the last chunk is scored and newer weights were published since that chunk began. If no newer weights
    come, it is due `play.chunk_wait_s` after the last chunk was scored. If `starving`, no weights can come without more
    plays, so it is due immediately.
    """
    play = state.config.play
    for environment in list(state.flight.resting.values()):
        last = environment.chunks[-1]
        if len(environment.chunks) >= play.window_chunks or environment.audit is not None:
            continue
        assert last.scored_at is not None
        newer = state.version > last.version
        if newer or starving or now >= last.scored_at + play.chunk_wait_s:
            open_chunk(state, environment, now)


def lease(state: RunState, count: int, chunks: int, holder: str, request: int, now: float) -> tuple[PlayLease, ...]:
    """Lease up to `count` plays: first from chunks that have begun, then from at most `chunks` new chunks."""
    if held := state.flight.held(holder, request):
        return tuple(_make_play_lease(state, play) for play in held)
    leased: list[PlayLease] = []
    while len(leased) < count:
        if (play := state.flight.next()) is not None:
            leased.append(_lease(state, play, holder, request, now))
        elif chunks and (fresh := state.flight.next_chunk()) is not None:
            chunks -= 1
            _begin(state, *fresh)
        else:
            break
    return tuple(leased)


def _begin(state: RunState, environment: Environment, chunk: Chunk) -> None:
    state.flight.begin(environment, chunk)
    chunk.version = state.version
    state.touch("environments", environment.id, environment)


def _lease(state: RunState, play: PlayRecord, holder: str, request: int, now: float) -> PlayLease:
    play.version = state.version
    state.flight.lease(play, holder, request, now + state.config.play.lease_s)
    state.touch("plays", play.id, play)
    return _make_play_lease(state, play)


def _make_play_lease(state: RunState, play: PlayRecord) -> PlayLease:
    source = state.sources[play.environment]
    number = compute_instance_number(state.environments[play.environment], play)
    return PlayLease(
        id=play.id,
        lease=play.lease,
        environment=play.environment,
        program=state.programs[play.environment],
        hint=source.hint if play.hinted else None,
        seed=state.instance(play.environment, number),
        sampler=state.seed("play", play.id, play.lease),
        reads=source.reads,
        single_turn=source.single_turn,
    )


def release(state: RunState, play: PlayRecord) -> None:
    """Open a leased play again. It keeps its seed."""
    state.flight.release(play)
    state.touch("plays", play.id, play)


def suspect(state: RunState, play: PlayRecord, holder: str, now: float) -> None:
    """Open a leased play again because a service crashed while it served the play. The second time it becomes void."""
    play.suspected += 1
    if play.suspected < SUSPECTED:
        release(state, play)
    else:
        fault = f"suspect: a service crashed, or failed, while it served this play ({play.suspected} times)"
        finish(state, EndedPlay(play.id, play.lease, "fault", 0.0, (), 0.0, fault=fault), holder, now)


def finish(state: RunState, ended: EndedPlay, holder: str, now: float) -> bool:
    """Take the end of an episode that `holder` played, even under an earlier lease.

    Returns False if the play is already closed.
    """
    play = state.plays.get(ended.id)
    if play is None or play.state not in ("open", "leased"):
        return False
    environment = state.environments[play.environment]
    state.flight.drop(play)
    play.holder, play.seconds = holder, ended.seconds
    if ended.trajectory is None:
        play.state, play.fault = "void", ended.fault
        state.counters.voids += 1
    else:
        play.state = "finished"
        play.terminated = ended.outcome == "terminated"
        play.episode_return = ended.episode_return
        play.turns, play.sampled, play.tools = len(ended.rewards), ended.trajectory.sampled, ended.tools
        if ended.trajectory.versions:
            play.version = provenance.find_oldest(state.steps, ended.trajectory)
        state.touch("trajectories", play.id, ended.trajectory)
        if ended.recording is not None:
            audits.record(state, play, ended.recording)
        won = is_won(play.episode_return, state.config.play.win_return)
        state.counters.plays += 1
        state.counters.unhinted += not play.hinted
        if state.levels is not None and not play.hinted:
            state.levels.count(environment.program, environment.level, won)
        state.statistics.add_play(PlayFigures.of(play, environment, won))
    state.flight.add(play)
    state.touch("plays", play.id, play)
    _note_levels(state, environment, ended.rewards)
    _settle(state, environment, now)
    return True


def _note_levels(state: RunState, environment: Environment, rewards: tuple[float, ...]) -> None:
    levels = environment.levels
    # Most of the rewards repeat, and most were seen before.
    if unseen := set(rewards).difference(levels):
        new = sorted({round(reward, 9) for reward in unseen}.difference(levels))[: LEVELS - len(levels)]
        if not new:
            return
        environment.levels = [*environment.levels, *new]
        state.touch("environments", environment.id, environment)


def _settle(state: RunState, environment: Environment, now: float) -> None:
    """Quarantine the environment if too many plays are void. Else score its newest chunk and end the window, if due."""
    window = state.flight.windows[environment.id]
    if window.voids > VOID_SHARE * window.plays:
        close(state, environment, now, quarantined=True)
        return
    chunk = environment.chunks[-1]
    if chunk.scored_at is None and not state.flight.tally(environment, chunk).pending:
        _score_chunk(state, environment, chunk, now)
    if _is_over(state, environment):
        end(state, environment, now)


def _is_over(state: RunState, environment: Environment) -> bool:
    """Return True if all plays of the window have ended and no chunk will follow."""
    window = state.flight.windows[environment.id]
    return window.ended == window.plays and len(environment.chunks) >= state.config.play.window_chunks


def _score_chunk(state: RunState, environment: Environment, chunk: Chunk, now: float) -> None:
    """Score a chunk. Its finished unhinted plays become a group of the queue if their returns differ."""
    state.flight.score(environment, chunk, now)
    state.touch("environments", environment.id, environment)
    played = state.flight.tally(environment, chunk).plays
    plays = [play for play in played if play.state == "finished" and not play.hinted]
    # A play that sampled nothing (its first observation filled the context) has a return but no token to train.
    members = tuple(Member(play.id, play.episode_return, play.version) for play in plays if play.sampled)
    if not plays:
        return
    variance = has_different_returns([member.reward for member in members])
    state.statistics.add_chunk(variance)
    if variance:
        state.counters.trainable += len(members)
        enqueue(state, make_chunk_id(environment.id, chunk.index), "agent", members, now)


def end(state: RunState, environment: Environment, now: float) -> None:
    """End a window that expects no more plays. It closes when it has been audited."""
    _cancel_rest(state, environment, now)
    if not audits.begin(state, environment, now):
        close(state, environment, now)


def audited(state: RunState, outcome: Audited, now: float) -> None:
    """Record the outcome of an audit and close the window. A finding quarantines the environment."""
    environment = audits.finish(state, outcome)
    if environment is not None:
        close(state, environment, now, quarantined=bool(outcome.finding))


def _cancel_rest(state: RunState, environment: Environment, now: float) -> None:
    """Cancel all plays that have not ended, and score the newest chunk if it is not scored yet."""
    for play in _list_plays(state, environment):
        if play.state in ("open", "leased"):
            state.flight.drop(play)
            play.state = "cancelled"
            state.flight.add(play)
            state.touch("plays", play.id, play)
    last = environment.chunks[-1]
    if last.scored_at is None:
        _score_chunk(state, environment, last, now)


def _list_plays(state: RunState, environment: Environment) -> list[PlayRecord]:
    return [play for chunk in environment.chunks for play in state.flight.tally(environment, chunk).plays]


def close(state: RunState, environment: Environment, now: float, quarantined: bool = False) -> None:
    """Close the window with its present plays: score and remember it, pay its designer, free its slot.

    If its audit was left out, the window is neither paid, remembered nor averaged, because its value is unknown.
    """
    _cancel_rest(state, environment, now)
    plays = _list_plays(state, environment)
    averages, similarity = state.counters.averages.get(environment.skill), environment.measures.similarity
    luck = audits.count_lucky(environment, plays, state.config.play.win_return)
    score = score_of(plays, luck, quarantined, averages, similarity, state.config)
    unaudited = environment.audit is not None and environment.audit.state == "left out"
    if unaudited:
        score.reward = None
    elif not quarantined:
        _average(state, environment.skill, score)
    if quarantined and state.levels is not None:
        fail_program(state, environment.program, environment.level)
    environment.score, environment.closed_at = score, now
    environment.state = "quarantined" if quarantined else "closed"
    state.touch("environments", environment.id, environment)
    state.statistics.add_slot(SlotFigures.of(environment, score))
    if not (quarantined or unaudited):
        _remember(state, environment, score)
    # Without a reward, or without a sampled token, the design has nothing to teach.
    trained = score.reward is not None and environment.designed_version > 0
    member = Member(environment.job, score.reward or 0.0, environment.designed_version) if trained else None
    if not environment.program:
        close_member(state, environment.round, environment.skill, member, now)
    state.forget_environment(environment)


def _average(state: RunState, skill: str, score: Score) -> None:
    """Add a window's mean return to the averages of its skill."""
    if score.mean_return is None:
        return
    averages = state.counters.averages
    before = averages.get(skill)
    score.order = 0 if before is None else before.windows
    averages[skill] = add_to_averages(before, score.mean_return, state.config.reward)


def _remember(state: RunState, environment: Environment, score: Score) -> None:
    if score.win_rate is None:
        return
    counters = state.counters
    record = MemoryEntry(
        number=counters.remembered,
        environment=environment.id,
        skill=environment.skill,
        source=state.sources[environment.id].source,
        regret=score.least_regret,
        win_rate=score.win_rate,
        win_rate_hinted=score.win_rate_hinted,
        reward=score.reward,
    )
    counters.remembered += 1
    state.touch("memory", make_memory_key(record), record)
    for forgotten in state.memory.add(record):
        state.delete("memory", make_memory_key(forgotten))


def expire(state: RunState, now: float, live: frozenset[str] | None) -> None:
    """End the windows past their deadline, and reopen the plays that lost their lease.

    `live` names the connected holders. It is None if they are unknown.
    """
    for environment in audits.expire(state, now, live):
        close(state, environment, now)
    # Sort them, because a restart changes the order of the dict.
    for environment in sorted(state.environments.values(), key=lambda each: (each.deadline, each.id)):
        # If a resume has made windows shorter, a window may be over although its last play did not close it.
        if environment.audit is None and (now >= environment.deadline or _is_over(state, environment)):
            end(state, environment, now)
    for play in state.flight.lost(now, live):
        state.counters.expired_leases += 1
        release(state, play)
