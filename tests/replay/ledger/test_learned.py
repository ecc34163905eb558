"""The rewards that ask for signs of learning in the plays of a window: *progress* and *finding*."""

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.inspect.verify.scores import _find_win_return
from replay.ledger.records import PlayRecord
from replay.ledger.reward import (
    KINDS,
    Bounds,
    Change,
    WindowFigures,
    compute_change,
    compute_paired_regret,
    compute_window_reward,
    count_pairs,
    measure,
    score_of,
)
from spade.config import Reward, load

CONFIG = load("nano")
G = CONFIG.play.group_size
PAPER = Reward()
HELPED = compute_paired_regret([(0.0, 1.0), (0.0, 1.0)])
SHARES = st.floats(0, 1, width=16)


def a_play(index, hinted, won, turns, chunk=0):
    return PlayRecord(
        f"{chunk}{index}{hinted}", "e", chunk, index, hinted, "finished", episode_return=float(won), turns=turns
    )


def chunks_of(*chunks):
    """Unhinted plays, with the wins of each chunk."""
    won = [(chunk, each) for chunk, plays in enumerate(chunks) for each in plays]
    return [a_play(index, False, each, 1, chunk) for index, (chunk, each) in enumerate(won)]


def pairs(player, count, seed=0):
    """Pairs of plays: the hinted one is won in one turn, the unhinted one is as `player` draws (won, turns)."""
    random = Random(seed)
    arms = [(index, player(random)) for index in range(count)]
    return [
        each
        for index, (won, turns) in arms
        for each in (a_play(index, False, won, turns), a_play(index, True, True, 1))
    ]


def is_found(plays):
    return count_pairs(plays, 1.0).exploring_helps


def pay(plays, kind):
    settings = msgspec.structs.replace(CONFIG, reward=Reward(kind=kind))
    return score_of(plays, 0, False, None, None, settings).reward


# ---------------------------------------------------------------- the change over the chunks


def test_a_change_is_the_win_rate_of_the_later_half_minus_that_of_the_earlier_half():
    change = compute_change(chunks_of([0, 0, 0, 1], [0, 1, 1, 1]), 0, 1.0)
    assert change.bounds == (0.5, 0.5)
    assert change.error == pytest.approx((0.25 * 2 / 4) ** 0.5)
    halves = compute_change(chunks_of([0, 0], [1, 0], [1, 1], [1, 0]), 0, 1.0)
    assert halves.bounds == (0.5, 0.5)


def test_plays_of_one_chunk_show_no_change():
    assert compute_change(chunks_of([0, 1, 1]), 0, 1.0) is None


def test_a_doubtful_play_may_be_won_in_either_half_but_no_half_wins_more_than_all():
    change = compute_change(chunks_of([0, 0, 1, 1], [1, 1, 1, 1]), 1, 1.0)
    assert change.bounds == (0.25, 0.5)


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.lists(st.booleans(), min_size=1, max_size=12))
def test_a_change_turns_its_sign_with_the_order_of_the_halves(early, late):
    one, other = (compute_change(chunks_of(*order), 0, 1.0) for order in ((early, late), (late, early)))
    assert one.bounds.least == pytest.approx(-other.bounds.least)
    assert one.error == pytest.approx(other.error)
    assert one.error > 0 or one.bounds.least == 0


@given(st.floats(-1, 1, width=16), SHARES, SHARES)
def test_progress_pays_a_change_of_either_sign_alike_and_never_more_than_1(value, error, win_rate):
    paid = [
        KINDS["progress"](
            WindowFigures(
                HELPED, Bounds(win_rate, win_rate), Bounds(0.0, 0.0), None, None, Change(Bounds(each, each), error)
            ),
            PAPER,
        )
        for each in (value, -value)
    ]
    assert paid[0] == paid[1]
    assert 0.4 <= paid[0] <= 1 + 1e-12
    assert abs(value) > error or paid[0] == pytest.approx(0.4)


def test_progress_pays_a_quarter_of_its_part_to_luck_and_all_of_it_to_what_is_learned():
    """Without the shrinking, luck at a win rate of 0.5 would have three quarters of the part."""
    random = Random(5)

    def paid(*rates):
        windows = [chunks_of(*([random.random() < rate for _ in range(G)] for rate in rates)) for _ in range(2_000)]
        return sum(pay(plays, "progress") for plays in windows) / len(windows) / PAPER.anchor_weight

    assert paid(0.5, 0.5) == pytest.approx(0.25, abs=0.02)
    assert paid(0.9, 0.9) < 0.2
    assert paid(0.3, 0.9) > 0.8
    assert paid(0.0, 1.0) == pytest.approx(1.0)


def test_verify_finds_the_win_return_by_which_a_window_was_scored_before_a_resume():
    play, progress = msgspec.structs.replace(CONFIG.play, win_return=0.5), Reward(kind="progress")
    plays = chunks_of([0.0] * 4, [0.5] * 4)
    score = score_of(plays, 0, False, None, None, msgspec.structs.replace(CONFIG, play=play, reward=progress))

    def earned(win_return):
        return compute_window_reward(measure(plays, score, None, win_return), False, progress)

    assert earned(1.0) != score.reward == earned(_find_win_return(plays, score, 1.0))


# ---------------------------------------------------------------- finding


def find_out(random):
    """Of two candidates a player tries one, then the other."""
    return True, random.choice((1, 2))


def guess_once(random):
    """The turns allow for one candidate."""
    return random.random() < 0.5, 1


def guess_a_code(random):
    """Nobody finds the secret in three turns."""
    return False, 3


@pytest.mark.parametrize(("player", "learnable"), [(find_out, True), (guess_once, False), (guess_a_code, False)])
@given(seed=st.integers(0, 500))
def test_the_regret_is_paid_where_players_find_out_and_not_where_luck_decides(player, learnable, seed):
    plays = pairs(player, G, seed)
    tried_twice = any(play.turns > 1 for play in plays)  # else all were lucky
    assert is_found(plays) == (learnable and tried_twice)
    regret, anchor = pay(plays, "regret"), PAPER.anchor_weight * pay(plays, "win_rate")
    assert pay(plays, "finding") == pytest.approx(regret if is_found(plays) else anchor)


def test_of_a_program_with_turns_to_explore_on_half_of_its_instances_no_loss_of_the_others_is_paid():
    """So are those of the world with tools that paid their designer for ever."""

    def explore(random):
        right = random.random() < 0.5
        return (True, 1) if right else random.choice([(False, 1), (True, 2)])

    paid = [[pay(pairs(explore, 16, seed), kind) for kind in ("regret", "finding", "win_rate")] for seed in range(200)]
    regret, found, anchor = (sum(each) / len(paid) for each in zip(*paid, strict=True))
    assert regret - PAPER.anchor_weight * anchor > 0.35
    assert found < 0.02 < PAPER.anchor_weight * anchor


def test_a_player_who_did_not_find_out_in_time_that_others_had_is_a_regret():
    plays = pairs(lambda random: random.choice([(False, 2), (True, 2), (True, 2), (True, 1)]), 16)
    assert is_found(plays)
    assert pay(plays, "finding") == pay(plays, "regret")


def test_a_coin_that_is_thrown_each_turn_shows_finding_no_more_often_than_by_chance():
    def throw(random):
        turns = next((turn for turn in range(1, 3) if random.random() < 0.5), 0)
        return bool(turns), turns or 2

    shown = [is_found(pairs(throw, G, seed)) for seed in range(2_000)]
    assert 0.3 < sum(shown) / len(shown) < 0.55


def test_instances_that_the_hinted_play_lost_say_nothing():
    plays = [a_play(0, False, True, 3), a_play(0, True, False, 1)]
    assert not is_found(plays)
    assert is_found([*plays, a_play(1, False, True, 3), a_play(1, True, True, 1)])


def test_a_void_play_of_a_pair_speaks_against_finding():
    plays = pairs(lambda random: (True, 2), 1)
    assert is_found(plays)
    void = [msgspec.structs.replace(a_play(1, False, False, 0), state="void"), a_play(1, True, True, 1)]
    assert not is_found([*plays, *void])


def test_later_weights_that_win_more_than_the_earlier_ones_also_show_finding():
    """A secret that no play can find in its turns can be learned from many plays, if it stays the same."""
    pair = [a_play(99, False, False, 1), a_play(99, True, True, 1)]
    learned = [*pair, *chunks_of([0] * 7, [1] * 6 + [0] * 2)]
    forgotten = [*pair, *chunks_of([1] * 6 + [0], [0] * 8)]
    assert pay(learned, "finding") == pay(learned, "regret") > PAPER.regret_weight
    assert pay(forgotten, "finding") == pytest.approx(pay(forgotten, "regret") - PAPER.regret_weight)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 4), st.booleans(), st.integers(1, 4)), max_size=12),
    st.lists(st.booleans(), max_size=8),
)
def test_finding_pays_at_most_the_papers_reward_and_at_least_the_anchor_if_nobody_explored(instances, later):
    plays = [
        play
        for index, (won, turns, hinted_won, hinted_turns) in enumerate(instances)
        for play in (a_play(index, False, won, turns), a_play(index, True, hinted_won, hinted_turns))
    ]
    plays += [a_play(100 + index, False, won, 1, 1) for index, won in enumerate(later)]
    paid, paper, anchor = (pay(plays, kind) for kind in ("finding", "regret", "win_rate"))
    assert (paid is None) == (paper is None) == (not plays)
    assert not plays or 0 <= paid <= paper + 1e-12
    explored = any(turns > hinted_turns for _, turns, _, hinted_turns in instances)
    assert not plays or explored or paid >= PAPER.anchor_weight * anchor - 1e-12
