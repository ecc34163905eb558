"""A word of the hint is no gift if players without the hint find it too, where random play seldom does."""

import random

import pytest

from actors.environments.audit import audit
from tests.actors.environments.test_audited_losses import job, recorded

HINT = "The note at the end of the path says xyzzy. So say:xyzzy."
# The first observation names the path. A note at its end states the word, and a wrong step ends the play.
NOTE = """
import random

class NoteEnv:
    def reset(self, seed):
        self.path = random.Random(seed).choices(["left", "right"], k=5)
        self.left = list(self.path)
        return f"The path to the note: {self.path}. Actions: left right say:WHAT", {}

    def step(self, action):
        if action == "say:xyzzy":
            return "You are there.", 1.0, True, False, {}
        if not self.left or action != self.left.pop(0):
            return "You are lost.", 0.0, True, False, {}
        note = "A step further." if self.left else "A note says xyzzy."
        return f"{note} Actions: left right say:WHAT", 0.0, False, False, {}

    def solution(self):
        return [*self.path, "say:xyzzy"]
"""
FOUND = "hinted play play-4 wins by 'xyzzy', which only its hint states"


def path(seed):
    return tuple(random.Random(seed).choices(["left", "right"], k=5))


async def find(sandbox, source, unhinted, seed=8):
    """The finding if both hinted plays skip the way to the word and an unhinted play takes these actions."""
    plays = [await recorded(sandbox, source, hinted, ("say:xyzzy",), True) for hinted in (4, 6)]
    plays += [await recorded(sandbox, source, seed, unhinted, False)] if unhinted else []
    return (await audit(sandbox, job(source, *plays, won=(), lost=(), unaided=(4, 6), hint=HINT))).finding


async def test_a_word_that_a_winner_without_the_hint_found_is_no_gift(sandbox):
    assert await find(sandbox, NOTE, (*path(8), "say:xyzzy")) == ""
    one = (
        await recorded(sandbox, NOTE, 4, ("say:xyzzy",), True),
        await recorded(sandbox, NOTE, 8, (*path(8), "say:xyzzy"), False),
    )
    assert (await audit(sandbox, job(NOTE, *one, won=(), lost=(), unaided=(6,), hint=HINT))).finding == ""


@pytest.mark.parametrize(
    "unhinted", [(), ("say:xyzzy",), path(8), (*path(8), "left")], ids=["no play", "a guess", "unfinished", "lost"]
)
async def test_a_word_that_no_winner_without_the_hint_found_is_a_gift(sandbox, unhinted):
    assert await find(sandbox, NOTE, unhinted) == FOUND


@pytest.mark.parametrize(
    "source",
    [
        NOTE.replace('"A note says xyzzy."', '"A note says xyzzy." if self.seed == 8 else "The end."').replace(
            "self.left = list", "self.seed = seed; self.left = list"
        ),
        NOTE.replace("return [*self.path,", "return ["),
        NOTE.replace('return [*self.path, "say:xyzzy"]', 'return "Read the note."'),
    ],
    ids=["other instances lack the note", "the solution skips the note", "a solution in words"],
)
async def test_a_word_that_the_solution_does_not_show_on_the_instance_is_a_gift(sandbox, source):
    assert await find(sandbox, source, (*path(8), "say:xyzzy")) == FOUND
