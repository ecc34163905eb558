"""Damaged actions: how they look, and what admission makes of programs that raise on one."""

import re

import pytest
from msgspec import structs

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
    player = SlippingPlayer(lambda _: "proper", [], "Actions: look jump open:1 open:2")
    said = [player.act("Actions: look jump open:1 open:2 sing") for _ in range(15)]
    # The first proper action is made twice.
    assert said == [
        *("", "open", "proper", "proper", "look qqq", "proper", "open:1:qqq", "qqq", "proper"),
        *("open:qqq", "open:999", "proper", "open:0", "proper", "proper"),
    ]
    assert not player.busy


def test_slips_are_made_anew_where_none_of_the_same_actions_are_offered():
    player = SlippingPlayer(lambda _: "proper", [], "Actions: red blue")
    said = [player.act("Actions: blue green") for _ in range(6)]
    assert said == ["", "blue qqq", "proper", "proper", "qqq", "proper"]
    assert not player.busy
    assert [player.act("Actions: 1..3") for _ in range(5)] == ["", "1 qqq", "proper", "proper", "qqq"]


def test_the_next_action_of_a_path_is_damaged_and_the_last_one_is_not_sent():
    player, plays = SlippingPlayer(lambda _: "proper", ["take:key", "use:7"], "It is dark."), []
    while player.busy and len(plays) < 9:
        player.begin()
        plays.append([player.act("It is dark.") for _ in range(7)])
    assert plays == [
        ["take:key", "take:key", "", "proper", "proper", "use", "proper"],
        ["", "take", "take:key", "use:7:qqq", "use:qqq", "proper", "use:999"],
        ["take:key", "use:0", "proper", "proper", "proper", "proper", "proper"],
        ["take:key:qqq", "take:qqq", "take:key", "proper", "proper", "proper", "proper"],
    ]


def test_words_of_an_observation_without_a_list_are_not_damaged():
    assert not SlippingPlayer(lambda _: "", [], "It is dark.").busy


def test_without_a_list_only_the_first_proper_action_is_made_twice():
    proper = iter("abcdef")
    player = SlippingPlayer(lambda _: next(proper), [], "It is dark.")
    assert [player.act("It is dark.") for _ in range(6)] == ["a", "a", "b", "c", "d", "e"]


ROLES = """
class RolesEnv:
    def reset(self, seed):
        self.goal = random.Random(seed).randrange(1, 60)
        self.turn, self.role = 0, ""
        return "Choose a role. Actions: be:warrior be:mage", {}

    def step(self, action):
        self.turn += 1
        if not self.role:
            self.role = action if action in ("be:warrior", "be:mage") else ""
            said = self.view("Find it.") if self.role else "A role! Actions: be:warrior be:mage"
            return said, 0.0, False, False, {}
        PARSE
        won = gate == str(self.goal)
        return self.view(f"{gate} is wrong."), float(won), won, self.turn >= 6, {}

    def view(self, text):
        return f"{text} Actions: " + " ".join(f"guess:{number}" for number in range(1, 60))

    def solution(self):
        return ["be:mage", f"guess:{self.goal}"]
"""
LATER = {
    "''": "gate = action[0] and action.partition(':')[2]",
    "'guess'": "gate = action.split(':')[1] if action.startswith('guess') else 'nothing'",
    "'be:mage'": "assert not action.startswith('be'); gate = action.partition(':')[2]",
    "'guess:[0-9]+'": "gate = action.partition(':')[2]; assert gate != self.role; self.role = gate",
}
"""Ways to read a guess after the first turn, by the action at which the program raises."""


@pytest.mark.parametrize("where", LATER)
@pytest.mark.parametrize("key", [3, 4])
async def test_a_program_that_raises_on_a_slip_in_a_later_phase_is_refused(sandbox, where, key):
    verdict = await validate(sandbox, ROLES.replace("PARSE", LATER[where]), key, LIMITS)
    assert verdict.stages[-1].name == "garbage", verdict.stages[-1]
    assert re.search(f"after action {where}$", verdict.stages[-1].reason), verdict.stages[-1]


METALS = """
class MetalsEnv:
    def reset(self, seed):
        self.right = "none of these"
        self.metals = random.Random(seed).sample([f"metal {number}" for number in range(100)], 40)
        return f"Which of them is gold? Actions: {' | '.join(self.metals)} | none of these", {}

    def step(self, action):
        won = action.removeprefix(r"\\boxed{").removesuffix("}") == self.right
        return f"It is {'' if won else 'not '}{action}.", float(won), True, False, {}

    def solution(self):
        return [self.right]
"""


async def test_nonsense_may_win_if_it_is_offered(sandbox):
    limits = structs.replace(LIMITS, random_win_share=0.9)
    assert (await validate(sandbox, METALS, 3, limits)).stages[-1].name != "garbage"
    unlisted = METALS.replace(" | none of these", "")
    verdict = await validate(sandbox, unlisted, 3, limits)
    assert verdict.stages[-1].reason == "nonsense wins: 'none of these'"


def test_a_long_action_is_damaged_in_one_pass():
    """A pattern that began anew at each letter took minutes, and no other program was answered meanwhile."""
    word = "a" * 500_000
    assert f"{word}!qqq" in [text for _, text in list_slips(f"{word}!b")[1]]
