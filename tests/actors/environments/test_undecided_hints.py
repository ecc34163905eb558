"""Checks of a hint that a program prevents: by a timeout, or by a fault in place of a return."""

import random

import pytest

from actors.environments.audit import audit
from actors.environments.audit.hints import HintChecks
from actors.environments.tries import UndecidedError
from actors.sandbox import open_sandbox
from spade.config import Sandbox as Limits
from spade.protocol import Faulted
from tests.actors.environments.test_audited_losses import NUMBERS, SECRET, SHORTCUT, TOOL, job, recorded

HINT = "Where no door opens, say Xyzzy."
STEP = "    def step(self, action):\n"
HANGING = SECRET.replace(STEP, f"{STEP}        while self.kind and action in 'abcdefgh': pass\n")
"""No random play without the word has a result on odd seeds."""


@pytest.mark.parametrize("described", [False, True])
async def test_a_hint_whose_check_times_out_in_every_try_is_undecided(described):
    """The hint gives the word away. The audit passed if the program hung whenever the word was left out."""
    source = HANGING.replace("def solution", "def unasked") if described else HANGING
    async with open_sandbox(Limits(load_s=60.0, step_s=0.3)) as sandbox:
        replay = await recorded(sandbox, source, 3, ("xyzzy",), True)
        outcome = await audit(sandbox, job(source, replay, hint=HINT, lost=() if described else (5,), unaided=(5, 7)))
        assert outcome.finding == ""
        assert outcome.undecided == 1 + (not described) * 2
        plain = await audit(sandbox, job(source, replay, hint="Try what magicians say.", lost=(5,), unaided=(5, 7)))
        assert (plain.finding, plain.undecided) == ("", 0)


async def test_a_solution_that_our_own_faults_keep_from_an_instance_is_undecided(sandbox):
    class Failing:
        async def child(self, source, twin):
            return Faulted("infrastructure", "overload")

        def __getattr__(self, name):
            return getattr(sandbox, name)

    outcome = await audit(Failing(), job(NUMBERS.replace("SECRET", "'xyzzy'"), lost=(5, 7)))
    assert (outcome.finding, outcome.tried, outcome.undecided) == ("", 0, 3)


@pytest.mark.parametrize("lost", [-1.0, 0.0])
async def test_a_fault_in_place_of_a_return_clears_no_hint(sandbox, lost):
    """A play that faults returned 0, as much as the hinted play, so its word was not needed."""
    source = SHORTCUT.replace("WORD", "xyzzy").replace("PAID", "LOST + 0.5").replace("LOST", f"{lost}")
    raising = source.replace(STEP, f"{STEP}        assert ':' in action\n")
    replay = await recorded(sandbox, raising, 3, ("say:xyzzy",), True)
    work = job(raising, replay, won=(), lost=(), unaided=(5, 7), best=lost, hint="Say xyzzy at once.")
    outcome = await audit(sandbox, work)
    assert outcome.finding == f"hinted play play-3 returns {lost + 0.5:.2g} by 'xyzzy', which only its hint states"
    assert outcome.undecided == 0


NOTE = """
import random

class NoteEnv:
    def reset(self, seed):
        self.door, self.open = random.Random(seed).choice("abcdefgh"), False
        return f"Door {self.door} needs a password, which is on the note. Actions: read a b c d e f g h say:WORD", {}
    def step(self, action):
        if action == self.door and self.open:
            return "You go in.", 1.0, True, False, {}
        self.open = self.open or action == "say:xyzzy"
        told = "The note says xyzzy." if action == "read" else "Nothing happens."
        return f"{told} Actions: read a b c d e f g h say:WORD", 0.0, False, False, {}
"""


@pytest.mark.parametrize("failing", [False, True])
async def test_a_search_that_our_own_faults_prevent_makes_no_finding(sandbox, monkeypatch, failing):
    """A word that is told by a note was called a gift, if no random play could be opened."""
    door = random.Random(3).choice("abcdefgh")
    replay = await recorded(sandbox, NOTE, 3, ("say:xyzzy", door), True)
    unaided = tuple(seed for seed in range(5, 200) if random.Random(seed).choice("abcdefgh") == door)[:2]

    async def fail(*_):
        raise UndecidedError(ours=True)

    if failing:
        monkeypatch.setattr(HintChecks, "_succeeds_after_search", fail)
    outcome = await audit(sandbox, job(NOTE, replay, won=(), lost=(), hint="The password is xyzzy.", unaided=unaided))
    assert (outcome.finding, outcome.undecided) == ("", int(failing))
    solved = job(TOOL.replace("TRAP", "False"), won=(), hint="Use the lantern or the ladder.")
    outcome = await audit(sandbox, solved)
    assert (outcome.finding, outcome.undecided) == ("", len(solved.lost) * failing)
