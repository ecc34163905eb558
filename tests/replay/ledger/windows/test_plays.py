"""The plays of a window: leases, holders, releases, ends, nonsense."""

import msgspec
import pytest

from replay.ledger.batches import RefusalError
from replay.ledger.state import RunState
from spade.protocol import EndedPlay, LeaseDesigns, LeasePlays, ReleasePlay, SubmitPlays, TakeBatch
from spade.seeds import derive
from tests.replay.ledger.windows.one_window import ONE, begun, finish, lease
from tests.replay.replay_world import config, ended, played, snapshot, trajectory, void


def test_the_end_of_a_play_that_was_never_leased_is_refused_and_changes_nothing(ledger):
    before = snapshot(ledger.state)
    for lease_number in (0, 1):
        play = EndedPlay("e000000-0u000", lease_number, "terminated", 1.0, (1.0,), 0.5, trajectory(1, sampled=0))
        with pytest.raises(RefusalError, match=f"play e000000-0u000: its lease {lease_number} was never given"):
            ledger.apply(SubmitPlays((play,)), "agent/1", 0.0)
    assert snapshot(ledger.state) == before
    assert len(lease(ledger)) == 8


def test_a_play_given_back_is_leased_again_on_the_same_seed(ledger):
    first = lease(ledger)[0]
    ledger.apply(ReleasePlay(first.id, first.lease), "agent/1", 0.0)
    (again,) = lease(ledger)
    assert (again.id, again.seed, again.lease) == (first.id, first.seed, 2)
    assert again.sampler != first.sampler
    # A second release of the first lease does not take it from its new holder.
    ledger.apply(ReleasePlay(first.id, first.lease), "agent/1", 0.0)
    assert lease(ledger) == ()


def test_a_play_over_which_services_ended_twice_is_void_and_says_so(ledger):
    id = lease(ledger)[0].id

    def release(number, suspect):
        ledger.apply(ReleasePlay(id, number, suspect), "agent/1", 1.0)
        ledger.advance(1.0)
        return lease(ledger, now=1.0)

    # As often as it likes where nothing is wrong with the play itself; and a lease that is over says nothing.
    assert [play.lease for number in (1, 2, 3) for play in release(number, False)] == [2, 3, 4]
    (again,) = release(4, True)
    assert (again.id, again.lease) == (id, 5)
    assert release(4, True) == ()
    assert [play.lease for play in release(5, False)] == [6]
    assert ledger.state.plays[id].suspected == 1
    assert release(6, True) == ()
    play = ledger.state.plays[id]
    assert (play.state, play.suspected, play.holder) == ("void", 2, "agent/1")
    assert play.fault == "suspect: a service crashed, or failed, while it served this play (2 times)"
    assert ledger.state.counters.voids == 1
    assert ledger.state.counters.released_leases == 6


def test_a_lease_request_sent_again_gets_the_same_plays(ledger):
    """A request is sent again when its answer was lost with the connection."""

    def ask(holder, number):
        plays = ledger.apply(LeasePlays(3, 0.0), holder, 0.0, number).plays
        return sorted(plays, key=lambda play: play.id)

    first = ask("agent/1", 7)
    assert len(first) == 3
    assert ask("agent/1", 7) == first
    for other in (ask("agent/1", 8), ask("agent/2", 7)):
        assert not {play.id for play in other} & {play.id for play in first}


def test_an_expired_lease_opens_again_is_counted_and_the_first_end_counts(ledger):
    plays = lease(ledger, 1)
    ledger.tick(9.9, None)
    assert plays[0].id not in [play.id for play in lease(ledger, now=9.9)]
    ledger.tick(10.0, None)
    assert ledger.state.counters.expired_leases == 1
    (again,) = lease(ledger, 1, now=10.0)
    assert again.id == plays[0].id
    finish(ledger, plays, [1.0], now=11.0)
    finish(ledger, [again], [0.0], now=12.0)
    assert ledger.state.plays[again.id].episode_return == 1.0
    assert ledger.state.counters.plays == 1


def test_a_play_belongs_to_the_holder_that_ended_it(ledger):
    """Its lease may have been lost, and given to another."""
    lost, taken = lease(ledger, 2, holder="agent/1")
    ledger.tick(10.0, None)
    lease(ledger, 1, now=10.0, holder="agent/2")
    for play in (lost, taken):
        ledger.apply(played(play, 1.0, 1), "agent/1", 11.0)
    assert [ledger.state.plays[play.id].holder for play in (lost, taken)] == ["agent/1", "agent/1"]


def test_a_lease_is_ended_by_its_holder_alone(ledger):
    """Ids and numbers of leases can be guessed."""
    (play,) = lease(ledger, 1, holder="agent/1")
    before = msgspec.msgpack.encode(ledger.state.plays[play.id])
    for request in (played(play, 1.0, 1), void(play)):
        with pytest.raises(RefusalError, match=f"play {play.id}: its lease 1 is not held by agent/2"):
            ledger.apply(request, "agent/2", 1.0)
    ledger.apply(ReleasePlay(play.id, play.lease), "agent/2", 1.0)
    assert msgspec.msgpack.encode(ledger.state.plays[play.id]) == before
    ledger.apply(played(play, 1.0, 1), "agent/1", 1.0)
    assert (ledger.state.plays[play.id].state, ledger.state.plays[play.id].holder) == ("finished", "agent/1")


def test_a_repeated_submit_changes_nothing(ledger):
    plays = lease(ledger)
    finish(ledger, plays[:1], [1.0])
    ledger.state.changes()
    finish(ledger, plays[:1], [1.0])
    assert {table for table, _, _ in ledger.state.changes()} == {"meta"}  # counted as late, nothing else
    assert (ledger.state.counters.plays, ledger.state.counters.late_plays) == (1, 1)


def test_the_order_of_leases_tells_neither_the_arm_nor_the_index():
    """A program that counts its siblings would else know what it is played for."""
    orders = set()
    for secret in (b"a", b"b", b"c"):
        state = RunState(config(*ONE, "play.group_size=16", "learner.batch_sequences=16"), secret)
        ledger = begun(state)
        order = [play.id for play in ledger.apply(LeasePlays(100, 0.0), "agent/1", 0.0).plays]
        assert order == sorted(order, key=lambda id: derive(secret, "place", id))
        assert any("h" in id[7:] for id in order[:8])
        assert any("u" in id[7:] for id in order[-8:])
        orders.add(tuple(order))
    assert len(orders) == 3


def senseless(good):
    """The play told in ways that cannot be."""
    for change in (
        {"episode_return": float("nan")},
        {"episode_return": 1.5},
        {"rewards": (float("inf"),)},
        {"trajectory": None},
        {"outcome": "fault"},
    ):
        yield msgspec.structs.replace(good, **change)


def test_nonsense_in_a_message_keeps_no_other_play_from_being_taken(ledger):
    first, second, third, *_ = lease(ledger)
    bad = list(senseless(ended(second, 1.0, 1)))
    message = SubmitPlays((ended(first, 1.0, 1), *bad, ended(third, 0.0, 1), ended(first, 0.0, 1)))
    with pytest.raises(RefusalError, match=f"play {second.id}: .*; the other 3 of 8 plays are kept"):
        ledger.apply(message, "agent/1", 0.0)
    states = [ledger.state.plays[play.id].state for play in (first, second, third)]
    assert states == ["finished", "leased", "finished"]
    assert (ledger.state.counters.plays, ledger.state.counters.late_plays) == (2, 1)


def test_nonsense_is_refused_and_changes_nothing(ledger):
    play = lease(ledger)[0]
    good = ended(play, 1.0, 1)
    for bad in (
        *(SubmitPlays((nonsense,)) for nonsense in senseless(good)),
        LeasePlays(0, 1.0),
        LeasePlays(1, float("nan")),
        LeaseDesigns(-1, 1.0),
        TakeBatch(1, -1.0),
        TakeBatch(3, 1.0),
    ):
        with pytest.raises(RefusalError):
            ledger.apply(bad, "agent/1", 0.0)
    assert ledger.state.counters.plays == 0
