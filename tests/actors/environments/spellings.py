"""Programs in many spellings of their actions: of each a puzzle that chance does not solve, and one any action wins."""

from textwrap import indent

PUZZLE = """\
import random


class {name}Env:
    def __init__(self, max_turns: int = 6):
        self.max_turns = max_turns
        self.order = []
        self.turn = self.right = 0

    def reset(self, seed: int) -> tuple[str, dict]:
        self.order = random.Random(seed).choices(self.moves(), k=6)
        self.turn = self.right = 0
        return self.view({opening!r}), {{}}

    def moves(self) -> list[str]:
        return {moves}

    def view(self, said: str) -> str:
{view}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        self.turn += 1
        out_of_turns = self.turn >= self.max_turns
        move = action.strip()
        if move not in self.moves():
            return self.view("That is not possible."), 0.0, False, out_of_turns, {{}}
        if {easy} or self.right == 5 and move == self.order[5]:
            return "Done.", 1.0, True, False, {{}}
        self.right = self.right + 1 if move == self.order[self.right] else 0
        return self.view(f"{{self.right}} in a row are right."), 0.15 * self.right, False, out_of_turns, {{}}
{solution}

    def close(self) -> None:
        pass
"""
SOLUTION = """
    def solution(self) -> list[str]:
        return list(self.order)
"""

SPELLINGS = {
    "Spaces": ("Six valves, in one order.", ["red", "blue", "black"], r'return f"{said} Actions: red blue black"'),
    "Pairs": ("A board.", ["0,0", "0,1", "1,1"], r'return f"{said} Actions: 0,0 0,1 1,1"'),
    "Marks": ("A tape.", ["[0]", "[1]", "(2)"], r'return f"{said}\nActions: [0] [1] (2)"'),
    "Bars": ("A street.", ["go north", "ask Anna", "wait"], r'return f"{said}\nActions: go north | ask Anna | wait"'),
    "Boxes": (
        "Press the right one six times.", ["red", "blue"], r'return said + "\nActions: \\boxed{red}, \\boxed{blue}"',
    ),
    "BrokenBoxes": (
        "The backslash got lost.", ["in", "out"], r'return said + "\nAvailable actions: \boxed{in} or \boxed{out}"',
    ),
    "ListRepr": ("A crane.", ["lift", "lower", "turn"], r'return f"{said}\nAvailable actions: {self.moves()}"'),
    "SetRepr": ("Cards.", ["hit", "stand"], """return said + "\\nValid moves: {'hit', 'stand'}" """),
    "Bullets": (
        "A maze in the dark.", ["north", "south", "west"],
        r'return "\n".join([said, "**Valid Actions:**", *(f"- `{each}`: go {each}" for each in self.moves())])',
    ),
    "Numbered": (
        "A door.", ["knock", "push the door", "wait"],
        r'return said + "\nOptions:\n1. knock\n2. push the door\n3) wait (does nothing)"',
    ),
    "Letters": (
        "A quiz of six parts.", ["A", "B", "C"],
        r'return f"{said}\nChoose an option:\n(A) the tall one\n(B) the short one\n(C) neither of them"',
    ),
    "Inline": ("A fork.", ["stay", "leave"], r'return f"{said} Please choose: 1) stay 2) leave"'),
    "Brackets": ("A ship.", ["N", "S", "E"], r'return f"{said}\nMoves: [N]orth, [S]outh, [E]ast"'),
    "Semicolons": ("Chess, of a kind.", ["e2e4", "d2d4", "g1f3"], r'return f"{said}\nLegal moves: e2e4; d2d4; g1f3"'),
    "Slashes": ("A robot.", ["left", "right", "forward"], r'return f"{said} What do you do? (left/right/forward)"'),
    "Pipes": (
        "A lift.", ["climb", "jump", "rest"],
        r'return f"Moves made: {self.turn}. {said}\nOptions: climb | jump | rest."',
    ),
    "Prose": (
        "A hall.", ["look", "take the key", "go north"],
        r'return f"Last action: none. {said} You can look, take the key, or go north."',
    ),
    "Quotes": ("An oracle.", ["yes", "no"], r"""return f'{said} Respond with "yes" or "no" only.'"""),
    "Typographic": (
        "Two witnesses.", ["ask Anna", "ask Bert"], r'return f"{said}\nAvailable actions: “ask Anna”, “ask Bert”"',
    ),
    "Dots": ("A dial.", [str(n) for n in range(1, 13)], r'return f"{said} Actions: 1..12"'),
    "Dash": ("A keypad.", [str(n) for n in range(1, 10)], r'return f"{said}\nValid inputs: 1-9"'),
    "Between": ("A number.", [str(n) for n in range(1, 21)], r'return f"{said} Guess a number between 1 and 20."'),
    "Interval": ("A code.", [str(n) for n in range(1, 21)], r'return f"{said} Enter an integer in [1, 20]."'),
    "Commands": (
        "A market.", [*(f"buy {n}" for n in range(10)), *(f"sell {n}" for n in range(10)), "wait"],
        r'return f"{said} You have 7 coins and 2 sheep.\nCommands: buy N, sell N or wait"',
    ),
    "Grid": (
        "A grid of 3 rows and 3 columns.", [f"dig:{row}:{col}" for row in range(3) for col in range(3)],
        r'return f"{said}\nAction format: dig:<row>:<col> with 0-2"',
    ),
    "Items": (
        "On the table.", ["take lamp", "take rope", "take key", "look"],
        r'return f"{said} A lamp, a rope, a key.\nActions:\n  take <item>\n  look"',
    ),
    "Calls": (
        "A safe.", [f"turn({n})" for n in range(1, 6)],
        r'return f"{said}\nTools: none. Available actions: turn(n), n from 1 to 5"',
    ),
    "Alternatives": (
        "Two lamps.", ["press red", "press blue", "wait"],
        r'return f"{said}\nAvailable commands are: press <red|blue>, wait"',
    ),
    "Headings": (
        "# A garden", ["dig", "sow", "water"],
        r'return f"{said}\n\n## Available Actions\n\n* **dig** - turn soil\n* **sow** - in rows\n* **water**\n"',
    ),
}  # fmt: skip
"""Name of the world: how it opens, what it takes, and the body of its `view`."""


MISREAD = {
    "SquareBrackets": ("A ship.", ["[left]", "[right]", "[up]"], r'return f"{said} Actions: [left], [right], [up]"'),
    "TwoLists": ("A lift.", ["up", "down"], r'return f"{said} Actions: up down\nLegend. Actions: left right"'),
    "Decimals": ("A heater.", ["0.5", "1.5", "2.5"], r'return f"{said} Actions: 0.5..2.5 in steps of 1"'),
    "Objects": (
        "A robot.", ['{"go": "left"}', '{"go": "right"}'], r"""return said + ' Actions: {"go": "left|right"}' """,
    ),
    "ColonAndSpace": ("A door.", ["door: open", "door: shut"], r'return f"{said} Actions: door: open, door: shut"'),
    "Or": ("A choice.", ["do or die", "now or never"], r'return f"{said} Actions: do or die; now or never"'),
    "Capitals": ("A drill.", ["LEFT", "RIGHT"], r'return f"{said} Actions: left right"'),
}  # fmt: skip
"""Spellings of which something else is read than the program takes."""


def program(name: str, easy: bool = False, solved: bool = True) -> str:
    """The world of a spelling; an `easy` one is won by any of its actions."""
    opening, moves, view = (SPELLINGS | MISREAD)[name]
    return PUZZLE.format(
        name=name,
        opening=opening,
        moves=moves,
        view=indent(view, " " * 8),
        easy=easy,
        solution=SOLUTION if solved else "",
    )


COIN = """\
import random


class HalfEnv:
    LISTED = {listed!r}

    def reset(self, seed: int) -> tuple[str, dict]:
        words = {words!r}
        self.right = random.Random(seed).sample(words, len(words) // 2)
        return "Which of them?\\nActions: " + self.LISTED, {{}}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        won = action.strip() in self.right
        return "Right." if won else f"Not {{action}}.", float(won), True, False, {{}}
"""
"""A world of one turn in which half of the actions win."""


DISPUTE = """\
import random


class CarOwnershipDisputeEnv:
    FACTS = {"receipt": "paid", "insurance": "insures", "key": "carries the second key of", "mechanic": "had repaired"}

    def __init__(self, max_turns: int = 8):
        self.max_turns = max_turns
        self.owner = ""
        self.asked = set()
        self.turn = 0

    def reset(self, seed: int) -> tuple[str, dict]:
        rng = random.Random(seed)
        self.owner = rng.choice(["bold", "reed"])
        self.liars = {fact: rng.random() < 0.3 for fact in self.FACTS}
        self.asked = set()
        self.turn = 0
        return self.view("A grey car stands in the yard, and two people say that it is theirs."), {}

    def view(self, said: str) -> str:
        claims = "Mr Bold points at a receipt and names a mechanic; Ms Reed speaks of insurance and holds a key."
        return f"{said} {claims}LIST"

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        self.turn += 1
        over = self.turn >= self.max_turns
        words = action.lower().replace(":", " ").split()
        other = "reed" if self.owner == "bold" else "bold"
        for fact, deed in self.FACTS.items():
            if fact in words:
                self.asked.add(fact)
                who = other if self.liars[fact] else self.owner
                return self.view(f"It seems that {who} {deed} the car."), 0.2 * len(self.asked), False, over, {}
        if "decide" in words and words[-1] in ("bold", "reed"):
            right = words[-1] == self.owner and len(self.asked) == 4
            return "The court has heard you.", 1.0 if right else 0.2, True, False, {}
        return self.view("Nobody knows what you mean."), 0.0, False, over, {}

    def solution(self):
        return SOLUTION
"""
DISPUTE_LISTED = DISPUTE.replace(
    "LIST", "\\nActions: ask:receipt ask:insurance ask:key ask:mechanic decide:bold decide:reed"
)
DISPUTE_PROSE = DISPUTE.replace("LIST", "")
SOLVED = '[*(f"ask:{fact}" for fact in self.FACTS), f"decide:{self.owner}"]'
DESCRIBED = '"Ask about all four things, then decide for whom most of them speak."'

LUCK_BEFORE_STEPS = """
import random

class LeversEnv:
    STEPS = ("open the box", "take the gold")
    def reset(self, seed):
        self.right, self.pulled, self.taken = random.Random(seed).choice(["red", "blue"]), "", 0
        return "One of two levers opens the vault. Actions: red blue", {}
    def step(self, action):
        if not self.pulled:
            if action not in ("red", "blue"):
                return "Pull a lever. Actions: red blue", 0.0, False, False, {}
            self.pulled = action
            return f"You pull it. Actions: {self.STEPS[0]}", 0.0, False, False, {}
        if action != self.STEPS[self.taken]:
            return f"That is not possible. Actions: {self.STEPS[self.taken]}", -1.0, True, False, {}
        self.taken += 1
        if self.taken == len(self.STEPS):
            return "You look inside.", float(self.pulled == self.right), True, False, {}
        return f"You do it. Actions: {self.STEPS[self.taken]}", 0.0, False, False, {}
    def solution(self):
        return [self.right, *self.STEPS]
"""
"""A program that a guess between two levers decides. The steps after it are listed as words, without a bar."""
