"""Skill pays in every family, and a hint informs."""

import functools
import random
from collections.abc import Container
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from actors.nano.demonstrations import draw_other, make_demonstration
from actors.nano.families import FAMILIES, Family, Game, read_offered
from actors.nano.games import GAMES, GameSimulation
from actors.nano.levels import EVERY, PLAIN
from actors.nano.players import play
from actors.nano.tools.world import TOOLS
from actors.nano.world import World, draw_knobs
from actors.nano.worlds import WORLDS
from actors.text.profile import Document
from spade.app.nano.build import encode
from spade.app.nano.simulation import SIMULATIONS
from spade.config import load
from spade.policy.model_folder import resolve
from spade.tokens import Tokenizer

TIDES = Document("s1", "science", "Tides", "")
PLAYS, LEVEL_PLAYS = 300, 120

Rates = tuple[float, float, float]
"""Win rates of the guesser, of the skilled player, and of the skilled player who knows the rule."""


class Won(NamedTuple):
    """If each player won a program of a level."""

    level: int
    won: list[bool]


def plays_of(world: World, family: Family[Any, Any], count: int, levels: Container[int]) -> list[Won]:
    """Programs that are drawn, each played by all three players on one instance."""
    rng, played = random.Random(1), list[Won]()
    for _ in range(count):
        knobs = draw_knobs(rng, family, False, levels)
        simulation = SIMULATIONS[world.name](world.make(rng, TIDES, family.skills[0], family, knobs).source)
        seed = rng.getrandbits(31)
        players = (world.guesser(rng), family.player(knobs, knobs.printed, rng), family.player(knobs, True, rng))
        won = [play(simulation, player, seed, None, world.chat_format()).episode_return >= 1 for player in players]
        played.append(Won(knobs.level, won))
    return played


def rates(played: list[Won]) -> Rates:
    guessing, skilled, informed = (sum(arm) / len(played) for arm in zip(*(each.won for each in played), strict=True))
    return guessing, skilled, informed


@functools.cache
def plays_of_level(family: Family[Any, Any], level: int) -> list[Won]:
    return plays_of(GAMES, family, LEVEL_PLAYS, {level})


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_skill_pays_and_guessing_mostly_loses(family: Family[Any, Any]) -> None:
    guessing, skilled, informed = rates([each for level in EVERY for each in plays_of_level(family, level)])
    assert guessing < 0.4
    assert skilled > guessing + 0.3
    assert informed > skilled - 0.05


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_skill_alone_wins_low_levels_and_high_ones_half_the_time(family: Family[Any, Any]) -> None:
    for level in EVERY:
        guessing, skilled, informed = rates(plays_of_level(family, level))
        assert guessing < 0.5
        assert skilled > guessing + 0.1
        assert (skilled > 0.85) == (level <= PLAIN)
        assert (informed > 0.85) == (level <= PLAIN)


@pytest.mark.parametrize("family", TOOLS.families, ids=lambda family: family.name)
def test_with_tools_skill_wins_every_program_and_guessing_hardly_any(family: Family[Any, Any]) -> None:
    played = plays_of(TOOLS, family, PLAYS, EVERY)
    guessing, skilled, informed = rates(played)
    assert guessing < 0.05
    assert skilled == informed == 1.0
    assert {each.level for each in played} == set(EVERY)


@pytest.mark.parametrize("family", TOOLS.families, ids=lambda family: family.name)
def test_with_tools_every_wrong_candidate_may_be_tried_if_the_rule_is_withheld(family: Family[Any, Any]) -> None:
    """So luck decides no program. The recipe's limits leave room for it."""
    tokenizer, limits = Tokenizer.load(Path(resolve("nano-tools"))), load("nano-tools").play
    rng, withheld = random.Random(2), 0
    while withheld < 60:
        knobs = family.knobs(rng)
        if knobs.printed:
            continue
        withheld += 1
        environment = TOOLS.make(rng, TIDES, family.skills[0], family, knobs)
        player = family.player(knobs, False, rng)
        player.left[:] = [*knobs.others, knobs.rule]  # the right candidate comes last
        simulation = SIMULATIONS[TOOLS.name](environment.source)
        played = play(simulation, player, withheld, environment.hint, TOOLS.chat_format())
        assert played.episode_return == 1.0
        assert knobs.turns <= limits.max_turns
        assert len(encode(tokenizer, played.shown)[0]) + limits.max_turn_tokens <= limits.context_tokens


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_a_demonstration_is_a_pure_function_of_its_index(world: World) -> None:
    one, again, next_one = (
        make_demonstration(world, SIMULATIONS[world.name], 3, index, [TIDES]) for index in (5, 5, 6)
    )
    assert one == again
    assert one.environment.source != next_one.environment.source


def test_what_is_to_be_avoided_is_of_the_same_family_where_every_document_means_it() -> None:
    rng = random.Random(0)
    environment = GAMES.draw(rng, TIDES, "optimization")
    assert draw_other(GAMES, rng, environment, [TIDES]).family is environment.family


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_hints_are_shown_in_the_hinted_plays_alone(world: World) -> None:
    shown = make_demonstration(world, SIMULATIONS[world.name], 0, 0, [TIDES])
    opened = [conversation.messages[0].content.startswith("Hint: ") for conversation in shown.plays]
    assert opened == [False, True] * 4


@pytest.mark.parametrize(("observation", "actions"), [
    ("No. Actions: a b", ["a", "b"]), ("Actions: 9..11", ["9", "10", "11"]), ("Well done.", []),
])  # fmt: skip
def test_actions_are_read_off_an_observation(observation: str, actions: list[str]) -> None:
    assert read_offered(observation) == actions


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_high_level_is_won_by_the_rule_of_its_pair_that_holds_and_mostly_lost_by_the_other(family: Game) -> None:
    rng = random.Random(0)
    for level in EVERY[PLAIN:]:
        knobs = draw_knobs(rng, family, False, {level})
        environment = GAMES.make(rng, TIDES, family.skills[0], family, knobs)
        simulation = GameSimulation(environment.source)
        rates = sorted(
            sum(
                play(simulation, family.follower(knobs, rule, rng), seed, None, GAMES.chat_format()).episode_return >= 1
                for seed in range(LEVEL_PLAYS)
            )
            for rule in knobs.rules
        )
        assert rates[1] > 0.8 * LEVEL_PLAYS
        assert rates[0] < 0.7 * LEVEL_PLAYS
        assert all(rule in environment.hint for rule in knobs.rules)
