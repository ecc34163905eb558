"""Damaged actions: how they look, and what admission makes of programs that raise on one."""

import re

import pytest

from actors.environments.admission import validate
from actors.environments.slips import SlippingPlayer, list_slips
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
    "after action '(knock|open):0'": "gate = int(words[0]) if ''.join(words).isdigit() else 99; gate //= bool(gate)",
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


MOVES = {
    "'999,999'": ('" ".join(f"{x},{y}" for x in "0123" for y in "0123")', 'x, y = map(int, action.split(","))'),
    "'R999C999'": ('" ".join(f"R{x}C{y}" for x in "0123" for y in "0123")', 'x, y = map(int, action[1:].split("C"))'),
    "'d_999_999'": ('" ".join(f"d_{x}_{y}" for x in "0123" for y in "0123")', 'x, y = map(int, action[2:].split("_"))'),
    "'move [0-3] to qqq'": (
        '" | ".join(f"move {x} to {y}" for x in "0123" for y in "0123")',
        '_, x, _, y = action.split(); x = int(x); y = {"0": 0, "1": 1, "2": 2, "3": 3}[y]',
    ),
}
"""Lists of actions and their readers, by the slip at which the program raises although it answers any other text."""
CELLS = """
class CellsEnv:
    def reset(self, seed):
        self.turn, self.goal = 0, divmod(random.Random(seed).randrange(16), 4)
        return self.view("Four by four cells."), {}

    def view(self, text):
        return f"{text}\\nActions: " + OFFERED

    def step(self, action):
        self.turn += 1
        try:
            READ
        except ValueError:
            return self.view("Name a cell."), 0.0, False, self.turn >= 4, {}
        seen = [[0] * 4 for _ in range(4)][x][y]
        won = (x, y) == self.goal
        return self.view("Here." if won else f"Not here {seen}."), float(won), won or self.turn > 1, False, {}
"""


@pytest.mark.parametrize("where", MOVES)
async def test_a_program_that_raises_on_a_cell_outside_its_board_is_refused(sandbox, where):
    offered, read = MOVES[where]
    verdict = await validate(sandbox, CELLS.replace("OFFERED", offered).replace("READ", read), 3, LIMITS)
    assert verdict.stages[-1].name == "garbage", verdict.stages[-1]
    assert re.search(f"after action {where}$", verdict.stages[-1].reason), verdict.stages[-1]


@pytest.mark.parametrize(
    ("action", "slips"),
    [
        ("look", ["look qqq", "qqq"]),
        ("7", ["7 qqq", "qqq", "999", "0"]),
        ("0,0", ["0,0 qqq", "qqq", "0,qqq", "999,999"]),
        ("R1C2", ["R1C2 qqq", "qqq", "R999C999", "R0C0"]),
        ("open door", ["open", "open door qqq", "open qqq"]),
        ("move A to B", ["move", "move A to B qqq", "move qqq", "move A to qqq"]),
        ("weigh:1-3", ["weigh", "weigh:1-3:qqq", "weigh:qqq", "weigh:1-qqq", "weigh:999-999", "weigh:0-0"]),
        ("move(2, 3)", ["move", "move(2, 3) qqq", "move(qqq", "move(2, qqq)", "move(999, 999)", "move(0, 0)"]),
        ("set x=1", ["set", "set x=1 qqq", "set qqq", "set x=qqq", "set x=999", "set x=0"]),
        ("take_lamp", ["take", "take_lamp_qqq", "take_qqq"]),
        ("go_to:3", ["go_to", "go_to:3:qqq", "go_to:qqq", "go_to:999", "go_to:0"]),
        ("-", ["- qqq", "qqq"]),
        ("", [" qqq", "qqq"]),
    ],
)
def test_an_action_is_damaged_in_each_way_that_it_allows(action, slips):
    assert [text for _, text in list_slips(action)[1]] == slips


def test_each_slip_is_made_once_for_each_verb_and_between_them_is_a_proper_action():
    player = SlippingPlayer(lambda _: "proper", ["open 1", "open 2"], "Actions: look jump")
    said = [player.act("Actions: look jump sing") for _ in range(12)]
    assert said[2::3] == ["proper"] * 4
    made = [each for index, each in enumerate(said) if index % 3 != 2]
    assert made == ["open", "open 1 qqq", "look qqq", "open qqq", "qqq", "open 999", "open 0", "proper"]
    assert not player.waiting


def test_words_of_an_observation_without_a_list_are_not_damaged():
    assert not SlippingPlayer(lambda _: "", [], "It is dark.").waiting
    assert len(SlippingPlayer(lambda _: "", ["go on"], "It is dark.").waiting) == 3
