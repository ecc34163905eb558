"""Skill pays in every family, and a hint informs."""

import random

import pytest

from actors.nano.demonstrations import demonstrate
from actors.nano.families import FAMILIES, Family, offered
from actors.nano.players import Guesser, instantiate, play
from actors.nano.prompts import NanoProfile
from actors.nano.world import draw_knobs, make
from actors.text.conversation import GameTalk
from actors.text.profile import Document
from spade.config import SKILLS

TIDES = Document("s1", "science", "Tides", "")
PROFILE = NanoProfile()


def win_rates(family: Family) -> tuple[float, float, float]:
    """Of the guesser, of the skilled player, and of the skilled player who knows the rule."""
    rng = random.Random(1)
    wins = [0, 0, 0]
    for _ in range(300):
        knobs = draw_knobs(rng, family, False)
        environment = instantiate(make(rng, TIDES, SKILLS[0], family, knobs).source)
        seed = rng.getrandbits(31)
        players = (Guesser(rng), family.player(knobs, knobs.printed, rng), family.player(knobs, True, rng))
        for arm, player in enumerate(players):
            wins[arm] += play(environment, player, seed, None, GameTalk(PROFILE.play)).episode_return >= 1
    guessing, skilled, informed = (won / 300 for won in wins)
    return guessing, skilled, informed


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_skill_pays_and_guessing_mostly_loses(family: Family) -> None:
    guessing, skilled, informed = win_rates(family)
    assert guessing < 0.5
    assert skilled > guessing + 0.1
    assert informed > guessing + 0.25
    assert informed > skilled - 0.05


def test_a_demonstration_is_a_pure_function_of_its_index() -> None:
    one, again, next_one = (demonstrate(3, index, [TIDES], PROFILE) for index in (5, 5, 6))
    assert one == again
    assert one.environment.source != next_one.environment.source


def test_hints_are_shown_in_the_hinted_plays_alone() -> None:
    shown = demonstrate(0, 0, [TIDES], PROFILE)
    opened = [conversation[0].content.startswith("Hint: ") for conversation in shown.plays]
    assert opened == [False, True] * 4


@pytest.mark.parametrize(("observation", "actions"), [
    ("No. Actions: a b", ["a", "b"]), ("Actions: 9..11", ["9", "10", "11"]), ("Well done.", []),
])  # fmt: skip
def test_actions_are_read_off_an_observation(observation: str, actions: list[str]) -> None:
    assert offered(observation) == actions
