"""The world's programs keep the contract of an environment, and its partition holds."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.nano.demonstrations import choose
from actors.nano.families import FAMILIES, Family, offered
from actors.nano.players import instantiate
from actors.nano.themes import camel
from actors.nano.world import DrawnEnvironment, distance, draw, draw_knobs, held_out, make, vary
from actors.text.profile import Document
from spade.config import SKILLS

TIDES = Document("s1", "science", "Tides", "")
DOCUMENTS = [TIDES, Document("m1", "mathematics", "Prime numbers", ""), Document("x", "", "Naïve Bayes, 2nd part", "")]


def drawn(seed: int) -> DrawnEnvironment:
    rng = random.Random(seed)
    return draw(rng, rng.choice(DOCUMENTS), rng.choice(SKILLS), unseen=bool(seed % 2))


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
    actions_offered = offered(observation)
    assert info == {}
    for turn, action in enumerate(actions, 1):
        observation, reward, over, _, _ = environment.step(action)
        if action not in actions_offered and not over:
            assert (reward, offered(observation)) == (0.0, actions_offered)
        assert over == (turn >= environment.max_turns) or reward == 1.0
        actions_offered = offered(observation)
        if over:
            break


@given(st.integers(0, 2**32))
def test_the_instance_follows_from_the_seed(seed: int) -> None:
    source = drawn(seed).source
    one, other = instantiate(source), instantiate(source)
    assert one.reset(seed) == other.reset(seed)
    assert one.solution() == other.solution()


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_instances_differ(family: Family) -> None:
    rng = random.Random(0)
    environment = instantiate(make(rng, TIDES, SKILLS[0], family, draw_knobs(rng, family, False)).source)
    seen = set()
    for seed in range(20):
        observation, _ = environment.reset(seed)
        seen.add((observation, tuple(environment.solution())))
    assert len(seen) > 2


def test_every_skill_has_a_family() -> None:
    assert {skill for family in FAMILIES for skill in family.skills} == set(SKILLS)


def test_held_out_parameters_enter_no_demonstration() -> None:
    rng = random.Random(0)
    for _ in range(300):
        environment, varied = choose(rng, DOCUMENTS)
        assert not held_out(environment.family, environment.knobs)
        assert varied is None or not held_out(varied.family, varied.knobs)
        unseen = draw(rng, TIDES, environment.skill, unseen=True)
        assert held_out(unseen.family, unseen.knobs)


def test_every_family_has_parameters_on_both_sides() -> None:
    for family in FAMILIES:
        rng = random.Random(0)
        assert {held_out(family, family.knobs(rng)) for _ in range(100)} == {False, True}


def test_a_variation_stays_near_its_seed() -> None:
    rng = random.Random(0)
    for _ in range(100):
        seed = draw(rng, TIDES, rng.choice(SKILLS))
        varied = vary(rng, DOCUMENTS[1], seed)
        assert (varied.family, varied.skill) == (seed.family, seed.skill)
        assert 1 <= distance(varied.knobs, seed.knobs) <= 4
        assert varied.name.startswith("PrimeNumbers")


@pytest.mark.parametrize(
    ("title", "name"), [("Prime numbers", "PrimeNumbers"), ("Euler's 2nd law", "EulerSNdLaw"), ("…", "Plain")]
)
def test_a_title_becomes_part_of_a_class_name(title: str, name: str) -> None:
    assert camel(title) == name
