"""The reward of plays that a program ended by a fault, and of instances that nobody can win."""

from random import Random

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replay.ledger import audits
from replay.ledger.records import Audit, Environment, MovingAverages, PlayRecord
from replay.ledger.reward import KINDS, score_of
from spade.config import load
from spade.estimates import compute_mean_and_error

CONFIG = load("nano")
PAPER = msgspec.structs.replace(CONFIG, reward=load("games-4b").reward)
RETURNS = st.sampled_from([-1.0, 0.0, 0.25, 1.0]) | st.floats(-1, 1, width=16)
STATES = st.sampled_from(["finished", "finished", "finished", "void", "cancelled"])


def window(tried=0, solved=0, state="passed", lost=(0,)):
    """An environment whose window is over, with the outcome of its audit."""
    audit = Audit("e", 0.0, (), (), state=state, lost=lost, tried=tried, solved=solved)
    return Environment("e", "j", 0, "maze", "LampEnv", "", 1, True, 0, 0.0, 0.0, audit=audit)


def a_play(index, hinted, value, state="finished", chunk=0, turns=0):
    return PlayRecord(f"{index}{hinted}", "e", chunk, index, hinted, state, episode_return=value, turns=turns)


def a_score(plays, environment, kind="regret", shrink=False, slow=0.25, similarity=0.5):
    reward = msgspec.structs.replace(PAPER.reward, kind=kind, shrink=shrink)
    settings = msgspec.structs.replace(PAPER, reward=reward)
    before = None if slow is None else MovingAverages(slow, slow)
    luck = audits.count_lucky(environment, plays, settings.play.win_return)
    return score_of(plays, luck, False, before, similarity, settings)


@st.composite
def windows(draw):
    """The plays of a window, with one of the finished ones; each instance may be played in one arm or in both."""
    plays = []
    for index in range(draw(st.integers(1, 12))):
        paired = draw(st.booleans())
        chunk = 0 if paired else draw(st.integers(0, 3))
        for hinted in (False, True) if paired else (False,):
            plays.append(a_play(index, hinted, draw(RETURNS), draw(STATES), chunk, draw(st.integers(1, 3))))
    finished = [at for at, play in enumerate(plays) if play.state == "finished"]
    plays = plays if finished else [*plays, a_play(99, False, draw(RETURNS))]
    return plays, draw(st.sampled_from(finished or [len(plays) - 1]))


@given(
    windows(),
    st.sampled_from(sorted(KINDS)),
    st.booleans(),
    st.integers(0, 4),
    st.integers(0, 4),
    st.none() | st.floats(-1, 1, width=16),
)
@example(([a_play(0, False, -1.0), a_play(0, True, -1.0)], 1), "regret", False, 0, 0, None)
def test_no_kind_of_reward_pays_more_where_a_finished_play_is_void_instead(drawn, kind, shrink, tried, solved, slow):
    plays, at = drawn
    environment = window(tried, min(tried, solved))
    without = a_score(plays, environment, kind, shrink, slow)
    voided = [*plays[:at], msgspec.structs.replace(plays[at], state="void"), *plays[at + 1 :]]
    with_void = a_score(voided, environment, kind, shrink, slow)
    assert (without.reward is None) == (with_void.reward is None)
    assert without.reward is None or with_void.reward <= without.reward + 1e-9
    assert without.learnable or not with_void.learnable
    # Designers are shown the environments of highest regret.
    assert without.least_regret is None or with_void.least_regret <= without.least_regret + 1e-9


@given(windows(), st.sampled_from(sorted(KINDS)), st.booleans())
def test_without_a_void_a_window_is_paid_by_its_figures_alone(drawn, kind, shrink):
    plays = [play for play in drawn[0] if play.state != "void"]
    score = a_score(plays, window(4, 4), kind, shrink)
    differences = [
        twin.episode_return - play.episode_return
        for play in plays
        for twin in plays
        if play.index == twin.index and twin.hinted and not play.hinted and play.state == twin.state == "finished"
    ]
    assert score.luck == 0
    assert score.least_regret == score.regret
    assert (score.regret, score.regret_error) == (compute_mean_and_error(differences) if differences else (None, None))


def play_out(random, win_rate, crashes):
    """A window of 16 pairs and 48 further plays; the program raises in a share of the plays that would be lost."""
    plays = []
    for index in range(64):
        for hinted in (False, True) if index < 16 else (False,):
            won = random.random() < win_rate
            void = not won and random.random() < crashes
            plays.append(a_play(index, hinted, float(won), "void" if void else "finished"))
    return plays


def mean_reward(crashes, kind="regret"):
    random = Random(7)
    rewards = [a_score(play_out(random, 0.3, crashes), window(4, 4), kind).reward for _ in range(400)]
    return sum(rewards) / len(rewards)


def test_a_program_that_raises_in_a_fifth_of_its_lost_plays_is_paid_less_than_one_that_does_not():
    """It was paid 0.59 instead of 0.49, when a void play and its pair were left out."""
    assert mean_reward(0.0) == pytest.approx(0.49, abs=0.02)
    assert mean_reward(0.2) < 0.4
    assert mean_reward(0.2, "win_rate") < mean_reward(0.0, "win_rate")


def by_seed(pairs=16, further=48, winnable=lambda index: index % 2 == 0):
    """A world whose seed alone decides who wins."""
    arms = [(index, hinted) for index in range(pairs) for hinted in (False, True)]
    arms += [(index, False) for index in range(pairs, pairs + further)]
    return [a_play(index, hinted, float(winnable(index))) for index, hinted in arms]


def test_luck_by_seed_is_paid_nothing_if_the_solution_loses_too():
    assert a_score(by_seed(), window(4, 0)).reward == 0
    assert not a_score(by_seed(), window(4, 0)).learnable


def test_luck_by_seed_is_paid_nothing_if_the_solution_lists_no_actions():
    assert a_score(by_seed(), window(0, 0)).reward == 0


def test_a_world_whose_lost_instances_the_solution_wins_earns_the_anchor():
    score = a_score(by_seed(), window(4, 4))
    assert (score.reward, score.luck, score.learnable) == (0.6, 0, True)


def test_one_instance_that_was_won_and_lost_shows_without_a_solution_that_more_than_the_seed_decides():
    plays = by_seed()
    helped = [msgspec.structs.replace(play, episode_return=1.0) if play.id == "1True" else play for play in plays]
    assert a_score(helped, window(0, 0)).luck == 0
    assert a_score(helped, window(4, 0)).luck == 31  # a solution that loses says more


def test_few_instances_prove_no_luck():
    assert a_score(by_seed(pairs=7), window(0, 0)).luck == 0
    assert a_score(by_seed(pairs=8), window(0, 0)).luck == 28


def test_lost_plays_count_as_void_by_the_share_of_their_instances_that_the_solution_lost():
    assert [a_score(by_seed(), window(4, solved)).luck for solved in (0, 1, 2, 3, 4)] == [32, 24, 16, 8, 0]


@pytest.mark.parametrize("environment", [window(state="late"), window(state="left out"), window(lost=())])
def test_without_an_audit_of_lost_instances_nothing_is_known_of_luck(environment):
    assert a_score(by_seed(), environment).luck == 0


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=12), st.integers(0, 4), st.integers(0, 4))
def test_luck_is_never_more_than_the_losses_and_none_if_the_solution_always_wins(outcomes, tried, solved):
    plays = [a_play(i, hinted, float(won)) for i, arms in enumerate(outcomes) for hinted, won in enumerate(arms)]
    luck = audits.count_lucky(window(tried, min(solved, tried)), plays, 1.0)
    losses = sum(not unhinted and not hinted for unhinted, hinted in outcomes)
    assert 0 <= luck <= losses
    assert luck == 0 or tried == 0 or solved < tried
    assert luck == losses or tried == 0 or solved > 0
