"""The proofs that transcripts give."""

import pytest

from actors.environments.probes import Transcript, describe_difference, has_heeded, has_other_rewards, is_unchanging
from spade.protocol import Observed


def transcript(seed: int, *steps: tuple[str, float, bool], actions: tuple[str, ...] = ("a",)) -> Transcript:
    return Transcript(seed, actions, tuple(Observed(text, reward, ended) for text, reward, ended in steps))


def test_rewards_that_differ_under_one_seed_prove_an_effect():
    plays = [transcript(1, ("s", 0, False), ("x", reward, True)) for reward in (0.0, 0.5)]
    assert has_other_rewards(plays)
    assert not has_other_rewards(plays[1:])


def test_rewards_that_differ_with_the_seed_alone_prove_nothing():
    coin = [
        transcript(seed, ("s", 0, False), (f"you said {side}", float(seed), True))
        for seed in (0, 1)
        for side in ("heads", "tails")
    ]
    assert not has_other_rewards(coin)


def test_words_that_differ_under_one_seed_are_a_change():
    assert not is_unchanging([transcript(1, ("s", 0, False), (word, 0, False)) for word in ("here", "there")])
    assert is_unchanging(
        [transcript(1, ("s", 0, False), ("here", 0, False), actions=(action,)) for action in ("a", "b")]
    )
    assert is_unchanging([transcript(seed, ("s", 0, False), (f"{seed}", 0, False)) for seed in (1, 2)])


@pytest.mark.parametrize(("reward", "ended", "won"), [
    (1.0, True, True), (7.0, True, True), (1.0, False, False), (0.9, True, False), (sum([0.1] * 10), True, True),
])  # fmt: skip
def test_a_win_is_a_full_return_of_an_episode_that_ended(reward, ended, won):
    assert transcript(1, ("s", 0, False), ("x", reward, ended)).won(1.0) is won


@pytest.mark.parametrize(
    ("said", "answers", "is_heeded"),
    [
        (("5", "6"), ("No.", "No."), False),
        (("5", "6"), ("You said '5'. No.", "You said '6'. No."), False),
        (("a", "ab"), ("a? No.", "ab? No."), False),
        (("5", "6"), ("Higher.", "Lower."), True),
        (("5", "6"), ("You said 5. Higher.", "You said 6. Lower."), True),
        (("", "6"), ("No.", "No."), False),
    ],
)
def test_an_echo_of_what_was_said_is_no_effect(said, answers, is_heeded):
    one, other = (
        transcript(1, ("s", 0, False), (answer, 0, False), actions=(action,))
        for action, answer in zip(said, answers, strict=True)
    )
    assert has_heeded(one, other) is is_heeded


def test_another_reward_is_an_effect():
    one, other = (transcript(1, ("s", 0, False), ("x", reward, False)) for reward in (0.0, 0.1))
    assert has_heeded(one, other)


def test_a_difference_is_named():
    assert describe_difference(Observed("a"), Observed("a")) == ""
    assert "'a', then 'b'" in describe_difference(Observed("a"), Observed("b"))
    assert describe_difference(Observed("x" * 200 + "a"), Observed("x" * 200 + "b")).endswith(
        "was 'a', then 'b' (from character 201 on)"
    )
    assert "1, True, False, then 0, False, False" in describe_difference(Observed("a", 1.0, True), Observed("a"))
    close = describe_difference(Observed("a", 0.5000001), Observed("a", 0.5))
    assert close.endswith("were 0.5000001, False, False, then 0.5, False, False")
    assert describe_difference(Observed("a", 0.5, True), Observed("a", 0.5)).endswith("then 0.5, False, False")
