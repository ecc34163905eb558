"""Damaged actions: how they look, and what admission makes of programs that raise on one."""

import re

import pytest

from actors.environments.admission import validate
from actors.environments.slips import Slip, SlippingPlayer, list_slips
from tests.actors.odd_programs import LIMITS

GATES = """
class GatesEnv:
    def __init__(self, max_turns: int = 6) -> None:
        self.max_turns = max_turns

    def reset(self, seed):
        self.goal = random.Random(seed).randrange(1, 40)
        self.turn, self.lit = 0, False
        return self.view("A dark hall of 40 gates."), {}

    def view(self, text):
        return text + (" Actions: knock:1 knock:20 knock:39 open:1 open:39" if self.lit else " Actions: light")

    def step(self, action):
        self.turn += 1
        over = self.turn >= self.max_turns
        verb, *words = action.split(":")
        if verb == "light":
            self.lit = True
            return self.view("There is light."), 0.1, False, over, {}
        if verb not in ("knock", "open") or not self.lit:
            return self.view("What?"), 0.0, False, over, {}
        PARSE
        if verb == "open" and gate == self.goal:
            return "It opens.", 1.0, True, False, {}
        return self.view("Higher." if gate < self.goal else "Not higher."), 0.1, False, over, {}

    def solution(self):
        return ["light", f"open:{self.goal}"]
"""

PARSERS = {
    "": "gate = int(words[0]) if len(words) == 1 and words[0].isdigit() else 0",
    "after action '(knock|open)'": "gate = int(words[0]) if words[0].isdigit() else 0",
    "after action '(knock|open):[0-9]+:qqq'": "gate, = words or '0'\n        gate = int(gate) if gate.isdigit() else 0",
    "after action '(knock|open):qqq'": "gate = int(words[0] or 0) if len(words) == 1 else 0",
    "after action '(knock|open):999'": "gate = [*range(40)][int(words[0]) if words[0:] and words[0].isdigit() else 0]",
}
"""Ways to read the number of a gate, by the slip at which the program raises."""


@pytest.mark.parametrize("where", PARSERS)
async def test_a_program_that_raises_on_a_slip_is_refused_with_the_slip(sandbox, where):
    verdict = await validate(sandbox, GATES.replace("PARSE", PARSERS[where]), 3, LIMITS)
    if not where:
        assert verdict.passed, verdict.stages[-1]
    else:
        assert verdict.stages[-1].name == "garbage", verdict.stages[-1]
        assert re.search(f"{where}$", verdict.stages[-1].reason)


@pytest.mark.parametrize(
    ("action", "slips"),
    [
        ("look", ["look qqq"]),
        ("7", ["7 qqq"]),
        ("open door", ["open", "open door qqq", "open qqq"]),
        ("weigh:1-3", ["weigh", "weigh:1-3:qqq", "weigh:qqq", "weigh:999-999"]),
        ("move(2, 3)", ["move", "move(2, 3) qqq", "move(qqq", "move(999, 999)"]),
        ("set x=1", ["set", "set x=1 qqq", "set qqq", "set x=999"]),
        ("-", ["- qqq"]),
        ("", [" qqq"]),
    ],
)
def test_an_action_is_damaged_in_each_way_that_it_allows(action, slips):
    assert [text for _, text in list_slips(action)[1]] == slips


def test_each_slip_is_made_once_for_each_verb_and_between_them_is_a_proper_action():
    player = SlippingPlayer(lambda _: "proper", ["open 1", "open 2"], "Actions: look jump")
    said = [player.act("Actions: look jump sing") for _ in range(12)]
    assert said[2::3] == ["proper"] * 4
    made = [each for index, each in enumerate(said) if index % 3 != 2]
    assert made == ["open", "open 1 qqq", "look qqq", "open qqq", "open 999", "proper", "proper", "proper"]
    assert not player.waiting


def test_words_of_an_observation_without_a_list_are_not_damaged():
    assert not SlippingPlayer(lambda _: "", [], "It is dark.").waiting
    assert len(SlippingPlayer(lambda _: "", ["go on"], "It is dark.").waiting) == len(Slip) - 1
