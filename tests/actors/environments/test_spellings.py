"""Admission of programs that spell their actions in many ways: sound ones pass, those that every action wins do not."""

import re

import msgspec
import pytest

from actors.environments.admission import validate
from spade.config import load
from tests.actors import odd_programs
from tests.actors.environments.spellings import (
    COIN,
    DESCRIBED,
    DISPUTE_LISTED,
    DISPUTE_PROSE,
    LUCK_BEFORE_STEPS,
    MISREAD,
    SOLVED,
    SPELLINGS,
    program,
)

LIMITS = {
    "default": odd_programs.LIMITS,
    "readable": msgspec.structs.replace(odd_programs.LIMITS, readable_actions=True, random_win_share=0.5),
    "games": msgspec.structs.replace(load("games-4b").sandbox, load_s=60.0, step_s=60.0),
}
DISPUTES = {
    f"{listing}, {solution}": world.replace("SOLUTION", {"solved": SOLVED, "described": DESCRIBED}[solution])
    for listing, world in (("listed", DISPUTE_LISTED), ("prose", DISPUTE_PROSE))
    for solution in ("solved", "described")
}


async def last_stages(sandbox, programs, limits):
    """By name of a program, the stage that its admission came to, whether it passed, and the reason."""
    found = {}
    for name, source in programs.items():
        last = (await validate(sandbox, source, 3, limits)).stages[-1]
        found[name] = (last.name, last.passed, last.reason)
    return found


SHARES = [0, *(pytest.param(share, marks=pytest.mark.slow) for share in (1, 2, 3))]
"""Parts of the spellings, each of which has a fourth of them."""


@pytest.mark.parametrize("share", SHARES)
async def test_a_sound_program_is_admitted_however_its_actions_are_spelled(share, sandbox):
    programs = {name: program(name, solved=index % 3 > 0) for index, name in enumerate(SPELLINGS) if index % 4 == share}
    stages = await last_stages(sandbox, programs, LIMITS["readable"])
    assert {name: stage for name, stage in stages.items() if not stage[1]} == {}
    # The games' lower share of luck takes four times the plays and does not depend on the spelling: a few show it.
    stages = await last_stages(sandbox, dict(list(programs.items())[::6]), LIMITS["games"])
    assert {name: stage for name, stage in stages.items() if not stage[1]} == {}


@pytest.mark.parametrize("share", SHARES)
async def test_a_program_that_any_offered_action_wins_is_refused_however_they_are_spelled(share, sandbox):
    programs = {name: program(name, easy=True) for index, name in enumerate(SPELLINGS) if index % 4 == share}
    stages = await last_stages(sandbox, programs, LIMITS["default"])
    assert {name: stage for name, stage in stages.items() if stage[:2] != ("random", False)} == {}


async def test_where_a_list_is_misread_luck_is_tested_with_what_the_solution_takes_as_well(sandbox):
    easy = await last_stages(sandbox, {name: program(name, easy=True) for name in MISREAD}, LIMITS["games"])
    assert {name: stage for name, stage in easy.items() if stage[:2] != ("random", False)} == {}
    sound = await last_stages(sandbox, {name: program(name) for name in MISREAD}, LIMITS["default"])
    assert {name: stage for name, stage in sound.items() if not stage[1]} == {}


async def test_luck_does_not_hide_behind_steps_with_spaces_in_a_list_of_words(sandbox):
    """Random play sent `open`, `the` or `box`, and so never came to the end of a play."""
    stages = await last_stages(sandbox, {"Steps": LUCK_BEFORE_STEPS}, LIMITS["games"])
    assert stages["Steps"][:2] == ("random", False)


async def test_a_list_that_is_misread_is_told(sandbox):
    stages = (await validate(sandbox, program("Capitals"), 3, LIMITS["default"])).stages
    reason = {stage.name: stage.reason for stage in stages}["random"]
    assert re.search(r"no list that can be read has the solution's action '(LEFT|RIGHT)'", reason)


async def test_a_list_in_another_form_is_called_uncertain(sandbox):
    reasons = {}
    for name in ("Spaces", "Bars", "Bullets", "Quotes"):
        stages = (await validate(sandbox, program(name), 3, LIMITS["default"])).stages
        reasons[name] = {stage.name: stage.reason for stage in stages}["random"].partition("; ")[2]
    assert reasons["Spaces"] == reasons["Bars"] == ""
    form = "uncertain: its list is not in the prescribed form, so actions were drawn from readings such as"
    assert reasons["Bullets"] == f"{form} [north, south, west] and the solution"
    assert reasons["Quotes"] == f"{form} [yes, no] and the solution"


@pytest.mark.parametrize("listed", [
    "a b c d e f clear", "5 10 -5 0", "go north | go south",
    *(pytest.param(listed, marks=pytest.mark.slow) for listed in (
        "weigh:1-3 weigh:2-4 wait", "and or not xor", "set:x=1 set:x=2", "H He Li Be", "[0] [1]",
        "north/south east/west",
    )),
])  # fmt: skip
async def test_a_world_that_luck_wins_half_of_the_time_is_refused_however_its_actions_look(sandbox, listed):
    words = listed.split(" | ") if "|" in listed else listed.split()
    stage = (await validate(sandbox, COIN.format(listed=listed, words=words), 3, LIMITS["games"])).stages[-1]
    assert (stage.name, stage.passed) == ("random", False)
    wins, plays = map(int, re.findall(r"(\d+) of (\d+) plays", stage.reason)[0])
    assert wins / plays >= len(words) // 2 / len(words) / 2  # if it sends what is listed, and not nonsense


@pytest.mark.parametrize("dispute", DISPUTES)
async def test_a_world_told_in_prose_that_hears_certain_words_is_admitted_by_default(sandbox, dispute):
    verdict = await validate(sandbox, DISPUTES[dispute], 3, LIMITS["default"])
    assert verdict.passed, verdict.stages[-1]
    reason = {stage.name: stage.reason for stage in verdict.stages}["random"]
    guessed = "the observation lists no actions, so they were drawn from its words"
    assert (guessed in reason) is dispute.startswith("prose")
    assert ("and the solution" in reason) is (dispute == "prose, solved")


async def test_games_refuse_a_first_observation_without_readable_actions_and_say_what_to_write(sandbox):
    verdict = await validate(sandbox, DISPUTES["prose, solved"], 3, LIMITS["games"])
    assert (verdict.stages[-1].name, verdict.stages[-1].passed) == ("random", False)
    assert verdict.stages[-1].reason.startswith("the first observation offers no actions that can be read")
    assert "`Actions: look take open`" in verdict.stages[-1].reason
    assert (await validate(sandbox, DISPUTES["listed, solved"], 3, LIMITS["games"])).passed


async def test_a_world_that_hears_nothing_and_lists_no_actions_is_refused_with_what_was_tried(sandbox):
    deaf = (
        DISPUTES["prose, described"].replace("if fact in words", "if False").replace('if "decide" in words', "if False")
    )
    verdict = await validate(sandbox, deaf, 3, LIMITS["default"])
    assert verdict.stages[-1].name == "effect"
    assert verdict.stages[-1].reason == (
        "whatever was tried, the same happened; the observation lists no actions, so they were drawn from its words"
    )
