"""The form of an action: admission finds the one that a program reads, and plays win in it."""

import pytest

from actors.environments.admission import validate
from actors.environments.forms import find_form
from spade.config import Play
from tests.actors.odd_programs import BOXED, LIMITS, SEARCH

LISTED = "[str(self.goal)]"
BOX = r"""['\\boxed{%d}' % self.goal]"""
SOLUTIONS = [LISTED, "'search for it'", BOX, "['0', str(self.goal)]"]
IDS = ["listed", "described", "listed in its box", "in two steps"]


@pytest.mark.parametrize("solution", SOLUTIONS, ids=IDS)
@pytest.mark.parametrize(("source", "reads"), [(BOXED, "box"), (SEARCH, "inside")], ids=["box", "inside"])
async def test_admission_finds_the_form_that_a_program_reads(sandbox, source, solution, reads):
    assert LISTED in source
    verdict = await validate(sandbox, source.replace(LISTED, solution), 3, LIMITS)
    assert (verdict.passed, verdict.reads) == (True, reads), verdict.stages
    assert verdict.first_observation.startswith("Find the number")
    assert await find_form(sandbox, source.replace(LISTED, solution), 4, LIMITS, Play()) == reads


@pytest.mark.parametrize(("source", "reads"), [(BOXED, "box"), (SEARCH, "inside")], ids=["box", "inside"])
async def test_a_program_without_a_solution_is_read_by_what_has_an_effect(sandbox, source, reads):
    verdict = await validate(sandbox, source.replace("def solution", "def answer"), 3, LIMITS)
    assert (verdict.passed, verdict.reads) == (True, reads), verdict.stages


async def test_a_program_that_reads_both_is_sent_the_inside(sandbox):
    both = BOXED.replace('r"\\\\boxed{([^{}]*)}"', 'r"([0-9]+)"')
    assert both != BOXED
    for source in (both, both.replace(LISTED, "'search for it'")):
        assert (await validate(sandbox, source, 3, LIMITS)).reads == "inside"


async def test_a_program_that_is_won_in_neither_form_is_rejected(sandbox):
    verdict = await validate(sandbox, BOXED.replace(LISTED, "['0']"), 3, LIMITS)
    assert (verdict.stages[-1].name, verdict.stages[-1].passed) == ("solution", False)
    assert "does not win" in verdict.stages[-1].reason


async def test_luck_is_tested_in_the_form_that_a_program_reads(sandbox):
    coin = BOXED.replace("(1, 31)", "(1, 3)").replace("1..30", "1..2")
    verdict = await validate(sandbox, coin, 3, LIMITS)
    assert (verdict.stages[-1].name, verdict.reads) == ("random", "box")


async def test_nonsense_in_its_box_is_garbage(sandbox):
    lax = BOXED.replace('return "A number, please. Actions: 1..30", 0.0, over', 'return "Fine.", 1.0, True')
    verdict = await validate(sandbox, lax, 3, LIMITS)
    assert verdict.stages[-1].name == "garbage"
    assert "nonsense wins" in verdict.stages[-1].reason


async def test_the_form_of_a_program_that_fails_before_it_shows_is_the_inside(sandbox):
    assert await find_form(sandbox, "class Broken", 4, LIMITS, Play()) == "inside"


async def test_a_program_that_any_box_wins_is_refused_though_it_reads_the_inside(sandbox):
    lax = SEARCH.replace(
        "self.turn += 1", 'self.turn += 1\n        if "boxed{" in action:\n            action = str(self.goal)'
    )
    verdict = await validate(sandbox, lax, 3, LIMITS)
    assert (verdict.stages[-1].name, verdict.reads) == ("garbage", "inside")
    assert "nonsense wins" in verdict.stages[-1].reason
