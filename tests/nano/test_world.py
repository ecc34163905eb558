"""The world's programs keep the contract of an environment, and its partition holds."""

import json
import random
from ast import literal_eval
from collections import Counter
from itertools import chain, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.nano.demonstrations import choose
from actors.nano.families import FAMILIES, Family, Game, read_offered
from actors.nano.families.game import Knobs
from actors.nano.games import GAMES, find_family, find_level, instantiate
from actors.nano.levels import CHANGES, EVERY, LEVELS, PLAIN, SHARES, draw_by_level
from actors.nano.themes import convert_to_camel
from actors.nano.tools.world import TOOLS
from actors.nano.world import DrawnEnvironment, World, count_differences, draw_knobs, is_held_out
from actors.nano.worlds import WORLDS
from actors.text.conversation import Move
from actors.text.profile import Document
from spade.app.nano.simulation import ToolSimulation
from spade.config import SKILLS, load
from spade.protocol import ToolCall

TIDES = Document("s1", "science", "Tides", "")
DOCUMENTS = [TIDES, Document("m1", "mathematics", "Prime numbers", ""), Document("x", "", "Naïve Bayes, 2nd part", "")]


def drawn(seed: int, world: World = GAMES) -> DrawnEnvironment:
    rng = random.Random(seed)
    return world.draw(rng, rng.choice(DOCUMENTS), rng.choice(world.skills), unseen=bool(seed % 2))


@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_the_solution_wins_and_only_the_goal_pays_in_full(seed: int, instance: int) -> None:
    environment = instantiate(drawn(seed).source)
    environment.reset(instance)
    rewards = []
    for action in environment.solution():
        observation, reward, over, truncated, info = environment.step(action)
        rewards.append(reward)
        assert isinstance(observation, str)
        assert (truncated, info) == (False, {})
        if over:
            break
    assert over
    assert rewards[-1] == 1.0
    assert all(0 <= reward < 1 for reward in rewards[:-1])


@given(st.integers(0, 2**32), st.lists(st.text() | st.sampled_from(["1", "red", "²", "-1", "\\boxed{1}"]), min_size=6))
def test_every_action_gets_an_answer(seed: int, actions: list[str]) -> None:
    environment = instantiate(drawn(seed).source)
    observation, info = environment.reset(seed)
    actions_offered = read_offered(observation)
    assert info == {}
    for turn, action in enumerate(actions, 1):
        observation, reward, over, _, _ = environment.step(action)
        if action not in actions_offered and not over:
            assert (reward, read_offered(observation)) == (0.0, actions_offered)
        assert over == (turn >= environment.max_turns) or reward == 1.0
        actions_offered = read_offered(observation)
        if over:
            break


@given(st.integers(0, 2**32))
def test_the_instance_follows_from_the_seed(seed: int) -> None:
    source = drawn(seed).source
    one, other = instantiate(source), instantiate(source)
    assert one.reset(seed) == other.reset(seed)
    assert one.solution() == other.solution()


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_instances_differ(family: Family[Any, Any]) -> None:
    rng = random.Random(0)
    environment = instantiate(GAMES.make(rng, TIDES, SKILLS[0], family, draw_knobs(rng, family, False)).source)
    seen = set()
    for seed in range(20):
        observation, _ = environment.reset(seed)
        seen.add((observation, tuple(environment.solution())))
    assert len(seen) > 2


def held(family: Game, knobs: Knobs) -> str:
    """The rule of a pair that holds in a program."""
    value = eval(family.value(knobs), {"random": random})  # our own text, straight from the family
    return next(rule for rule in knobs.rules if literal_eval(family.rules[rule]) == value)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_one_rule_of_a_pair_holds_in_all_programs_of_a_level(family: Game) -> None:
    for level in EVERY[PLAIN:]:
        (rule,) = {held(family, knobs) for knobs in family.spaces[level - 1]}
        assert rule in family.pairs[level - PLAIN - 1]


def test_the_rule_that_holds_is_told_by_neither_its_place_nor_another_pair() -> None:
    places = [
        pair.index(held(family, family.spaces[level][0]))
        for family in FAMILIES
        for level, pair in enumerate(family.pairs, PLAIN)
    ]
    assert 0.3 < sum(places) / len(places) < 0.7
    assert all(len(set(chain(*family.pairs))) == 2 * len(EVERY[PLAIN:]) for family in FAMILIES)


def test_variations_of_games_sink_by_themselves() -> None:
    rng = random.Random(0)
    changes = Counter[int]()
    for _ in range(600):
        seed = GAMES.draw(rng, TIDES, "optimization", levels={4})
        changes[GAMES.vary(rng, TIDES, seed).knobs.level - 4] += 1
    assert set(changes) == set(CHANGES)
    assert all(abs(changes[change] / 600 - share) < 0.07 for change, share in CHANGES.items())


@given(st.integers(0, 2**32), st.integers(0, 2**32))
def test_the_calls_of_a_solution_win_with_tools_and_each_request_is_met_when_it_is_given(
    seed: int, instance: int
) -> None:
    environment = drawn(seed, TOOLS)
    simulation = ToolSimulation(environment.source)
    opening = simulation.reset(instance)
    answers = [simulation.answer(Move("", (ToolCall(*call),))) for call in simulation.solution()]
    assert len(answers) < simulation.turns == environment.knobs.turns
    assert not any(result.refused for answer in answers for result in answer.results)
    done = [answer.done for answer in answers]
    assert done[-1] == opening.instructions
    assert environment.knobs.need - opening.instructions in (0, 1)
    assert all(later - earlier in (0, 1) for earlier, later in pairwise([0, *done]))
    assert simulation.answer(Move("done")).terminated


@given(st.integers(0, 2**32), st.data())
def test_any_call_that_a_schema_allows_gets_a_result(seed: int, data: Any) -> None:
    simulation = ToolSimulation(drawn(seed, TOOLS).source)
    tools = {tool["function"]["name"]: tool["function"] for tool in json.loads(simulation.reset(seed).tools)}
    for _ in range(4):
        function = tools[data.draw(st.sampled_from(sorted(tools)))]
        arguments = {
            name: data.draw(st.sampled_from(given["enum"]) if "enum" in given else VALUES[given["type"]])
            for name, given in function["parameters"]["properties"].items()
        }
        (result,) = simulation.answer(Move("", (ToolCall(function["name"], json.dumps(arguments)),))).results
        assert not result.refused


VALUES: dict[str, st.SearchStrategy[object]] = {
    "string": st.text() | st.sampled_from(["oak", "1"]),
    "integer": st.integers(),
}


@given(st.integers(0, 2**32))
def test_an_instance_with_tools_follows_from_the_seed(seed: int) -> None:
    source = drawn(seed, TOOLS).source
    one, other = ToolSimulation(source), ToolSimulation(source)
    assert one.reset(seed) == other.reset(seed)
    assert one.solution() == other.solution()


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_every_skill_has_a_family(world: World) -> None:
    assert {skill for family in world.families for skill in family.skills} == set(world.skills)


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_held_out_parameters_enter_no_demonstration(world: World) -> None:
    rng = random.Random(0)
    for _ in range(300):
        environment, varied = choose(world, rng, DOCUMENTS)
        assert not is_held_out(environment.family, environment.knobs)
        assert varied is None or not is_held_out(varied.family, varied.knobs)
        unseen = world.draw(rng, TIDES, environment.skill, unseen=True)
        assert is_held_out(unseen.family, unseen.knobs)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_level_of_a_game_has_parameters_on_both_sides_and_within_the_turns_of_a_run(family: Game) -> None:
    assert len(family.spaces) == LEVELS
    for level, space in zip(EVERY, family.spaces, strict=True):
        assert {knobs.level for knobs in space} == {level}
        assert len(set(space)) == len(space)
        assert {is_held_out(family, knobs) for knobs in space} == {False, True}
        assert max(knobs.turns for knobs in space) <= load("nano").play.max_turns


@given(st.integers(0, 2**32))
def test_the_level_of_a_program_is_read_off_its_text_and_not_off_what_it_says(seed: int) -> None:
    environment = drawn(seed)
    level, source = environment.knobs.level, environment.source
    assert find_level(source) == level
    assert find_level(source.replace(f"class {environment.name}", f"class Other{environment.family.name}")) == level
    far = level + 3 if level <= 3 else level - 3
    assert find_level(source.replace(f"level = {level}", f"level = {far}")) is None
    assert find_level("class X: ...") is None
    assert (find_family(source), find_family("class X: ...")) == (environment.family.name, None)


def test_low_levels_are_drawn_often_and_high_ones_seldom() -> None:
    rng = random.Random(0)
    counts = Counter(family.knobs(rng).level for family in FAMILIES for _ in range(500))
    assert all(abs(counts[level] / 3_000 - share) < 0.03 for level, share in zip(EVERY, SHARES, strict=True))


def test_levels_are_drawn_as_the_standard_library_draws_them() -> None:
    """The held-out programs stay the same, with which earlier runs were measured."""
    spaces = [[f"{level}{place}" for place in range(level + 2)] for level in EVERY]
    ours, plain = random.Random(5), random.Random(5)
    drawn = [draw_by_level(ours, spaces) for _ in range(5_000)]
    assert drawn == [plain.choice(plain.choices(spaces, SHARES)[0]) for _ in range(5_000)]


@pytest.mark.parametrize("count", [36, 72])
def test_held_out_games_are_as_many_of_each_skill_and_level(count: int) -> None:
    cells = Counter((each.skill, each.knobs.level) for each in GAMES.unseen(0, DOCUMENTS, count))
    assert (len(cells), set(cells.values())) == (36, {count // 36})


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_every_family_has_parameters_on_both_sides(world: World) -> None:
    for family in world.families:
        rng = random.Random(0)
        assert {is_held_out(family, family.knobs(rng)) for _ in range(100)} == {False, True}


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_a_variation_stays_near_its_seed(world: World) -> None:
    rng = random.Random(0)
    for _ in range(100):
        seed = world.draw(rng, TIDES, rng.choice(world.skills))
        varied = world.vary(rng, DOCUMENTS[1], seed)
        assert varied.skill == seed.skill
        assert varied.family is (world.suited(rng, DOCUMENTS[1], seed.skill) if world.fields else seed.family)
        assert varied.family is not seed.family or 1 <= count_differences(varied.knobs, seed.knobs) <= 6
        assert varied.name.startswith("PrimeNumbers")


def test_the_field_of_a_document_means_one_family_of_each_skill() -> None:
    rng = random.Random(0)
    for skill in GAMES.skills:
        for document in DOCUMENTS[:2]:
            assert len({GAMES.draw(rng, document, skill).family.name for _ in range(20)}) == 1
    families = {
        GAMES.suited(rng, Document("", field, "", ""), skill).name for skill in SKILLS for field in GAMES.fields
    }
    assert families == {family.name for family in FAMILIES}


@pytest.mark.parametrize(
    ("title", "name"), [("Prime numbers", "PrimeNumbers"), ("Euler's 2nd law", "EulerSNdLaw"), ("…", "Plain")]
)
def test_a_title_becomes_part_of_a_class_name(title: str, name: str) -> None:
    assert convert_to_camel(title) == name
