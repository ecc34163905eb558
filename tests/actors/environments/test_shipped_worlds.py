"""The worlds that ship are admitted by the settings of the recipe that plays them, and each has its skill and hint."""

import re
from collections import Counter

import pytest

from actors.environments.admission import validate
from actors.environments.offers import read_offer
from spade.app.supervisor.pools import read_config_programs, write_pool
from spade.config import SKILLS, load
from spade.errors import RunError
from spade.pools import read_list, read_shipped_programs

WORLDS = list(read_shipped_programs("small"))
FIRST = {world.skill: world for world in reversed(WORLDS)}
"""A world of each skill."""
RECIPE = load("smol-games")
MOST_CHARACTERS = 320  # about 80 tokens


@pytest.mark.parametrize(
    "world",
    [pytest.param(world, id=world.name, marks=() if world in FIRST.values() else pytest.mark.slow) for world in WORLDS],
)
async def test_a_world_is_admitted_and_its_solution_wins(world, sandbox):
    verdict = await validate(sandbox, world.source, 1, RECIPE.sandbox, RECIPE.play)
    assert verdict.passed, verdict.stages[-1]
    replayed = {stage.name: stage.reason for stage in verdict.stages}["solution"]
    assert "not replayed" not in replayed
    assert verdict.reads == "inside"
    assert verdict.seed_sensitive
    assert read_offer(verdict.first_observation).kind == "listed"
    assert re.search(r"\nActions: .*\Z", verdict.first_observation)
    assert len(verdict.first_observation) < MOST_CHARACTERS


def test_there_are_four_worlds_of_each_skill_with_names_of_their_own():
    assert Counter(world.skill for world in WORLDS) == dict.fromkeys(SKILLS, 4)
    assert len({world.name for world in WORLDS}) == len({world.source for world in WORLDS}) == 24


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_a_world_is_short_and_has_a_hint_without_a_placeholder(world):
    assert 20 <= len(world.source.splitlines()) <= 60
    assert 30 < len(world.hint) < 200
    boxed = re.findall(r"boxed\{(.*?)\}", world.hint)
    assert all(f'"{action}"' in world.source.lower() or action.isdecimal() for action in boxed)


def test_a_pool_that_ships_is_a_source_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pool(tmp_path / "pool", read_config_programs(RECIPE))
    assert [(each.name, each.skill) for each in read_list(tmp_path / "pool").entries] == sorted(
        (world.name, world.skill) for world in WORLDS
    )
    with pytest.raises(RunError, match=r"pool\.source: no pool named '\.\./nano' .*ships; .* small"):
        read_config_programs(load("smol-games", ("pool.source=shipped:../nano",)))
