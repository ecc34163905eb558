"""Probes: the actions read from an observation, and the proof in transcripts."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.probes import Transcript, choose, difference, indifferent, offered
from spade.protocol import Observed


@pytest.mark.parametrize(("observation", "actions"), [
    ("Which door? Actions: red blue", ["red", "blue"]),
    ("Guess. Actions: 1..4", ["1", "2", "3", "4"]),
    ("Guess. Actions: -1..1.", ["-1", "0", "1"]),
    ("Actions: old\nnow Actions: go north, go south.", ["go north", "go south"]),
    ("Actions: 'a' `b`", ["a", "b"]),
    ("Say 'open' or \"shut it\", as \\boxed{open}.", ["open", "shut it", "open"]),
    ("A number from 3 to 9?", ["3", "9"]),
    ("Well?", ["0", "1", "2", "yes", "no"]),
    ("Actions: 9..1", ["0", "1", "2", "yes", "no"]),
])  # fmt: skip
def test_actions_come_from_what_the_observation_offers(observation, actions):
    assert list(offered(observation)) == actions


def test_a_huge_range_costs_no_memory():
    assert len(offered("Actions: 1..99999999999999")) == 1_000


def test_a_range_of_numbers_too_long_to_read_is_a_word():
    word = "1.." + "9" * 5_000
    assert list(offered(f"Actions: {word}")) == [word]


@given(st.text())
def test_any_text_offers_something(observation):
    assert choose(observation, random.Random(1)) in offered(observation)


def transcript(seed: int, *steps: tuple[str, float, bool], actions: tuple[str, ...] = ("a",)) -> Transcript:
    return Transcript(seed, actions, tuple(Observed(text, reward, ended) for text, reward, ended in steps))


def test_rewards_that_differ_under_one_seed_prove_an_effect():
    plays = [transcript(1, ("s", 0, False), ("x", reward, True)) for reward in (0.0, 0.5)]
    assert indifferent(plays, 1.0) == ""


def test_rewards_that_differ_with_the_seed_alone_are_luck():
    coin = [
        transcript(seed, ("s", 0, False), (f"you said {side}", float(seed), True))
        for seed in (0, 1)
        for side in ("heads", "tails")
    ]
    assert indifferent(coin, 1.0) == "winning depends on the seed alone, not on the actions"


def test_where_nobody_wins_the_words_must_differ():
    hard = [transcript(1, ("s", 0, False), (word, 0, False)) for word in ("here", "there")]
    deaf = [transcript(1, ("s", 0, False), ("here", 0, False), actions=(action,)) for action in ("a", "b")]
    assert indifferent(hard, 1.0) == ""
    assert indifferent(deaf, 1.0) == "whatever is done, the same happens"


@pytest.mark.parametrize(("reward", "ended", "won"), [
    (1.0, True, True), (7.0, True, True), (1.0, False, False), (0.9, True, False), (sum([0.1] * 10), True, True),
])  # fmt: skip
def test_a_win_is_a_full_return_of_an_episode_that_ended(reward, ended, won):
    assert transcript(1, ("s", 0, False), ("x", reward, ended)).won(1.0) is won


def test_a_difference_is_named():
    assert difference(Observed("a"), Observed("a")) == ""
    assert "'a', then 'b'" in difference(Observed("a"), Observed("b"))
    assert "1, True, False, then 0, False, False" in difference(Observed("a", 1.0, True), Observed("a"))
