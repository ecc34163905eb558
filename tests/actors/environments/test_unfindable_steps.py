"""A hint that states a word is a gift, if the program tells the word only after an action that no player can find."""

import random

import msgspec
import pytest

from actors.environments.audit import audit
from actors.environments.gifts import PlayerView, find_unseen_words, find_words, heard, keep_findable
from actors.environments.tools.evidence import READ_CHARACTERS
from actors.text.conversation import Move
from spade.protocol import Observed, ToolCall
from tests.actors.environments.test_audited_losses import (
    LOCKED,
    SECRET,
    SERVICE,
    gift,
    gift_of_solutions,
    job,
    recorded,
    values,
)

STEP = "lookbehindthecurtain"
# On odd seeds a note states the word, but only after an action that the program does not offer.
NOTED = SECRET.replace(
    "        won = ",
    f"""        if action == "{STEP}":
            return "A note says xyzzy. Actions: a b c d e f g h", 0.0, False, False, {{}}
        won = """,
).replace(
    'return [self.right if self.kind == 0 else "xyzzy"]',
    f'return [self.right] if self.kind == 0 else ["{STEP}", "xyzzy"]',
)
HINT = "Where no door opens, say Xyzzy."
FOUND = "its solution wins a lost instance by 'xyzzy', which only its hint states"


@pytest.mark.parametrize("step", [STEP, "zx", "4271", "??"])
async def test_a_word_that_is_told_after_an_action_which_nobody_can_find_is_a_gift(sandbox, step):
    source = NOTED.replace(STEP, step)
    assert await gift_of_solutions(sandbox, source, "games", HINT) == FOUND


@pytest.mark.parametrize(
    "source",
    [
        NOTED.replace("e f g h", f"e f g h {STEP}"),
        NOTED.replace(STEP, "look behind").replace("is open.", "is open. Somebody may look at what is behind."),
        NOTED.replace("e f g h", "e f g h look:AT").replace(STEP, "look:door"),
    ],
    ids=["offered", "in words", "a placeholder"],
)
async def test_a_word_that_is_told_after_an_action_which_a_player_can_find_is_no_gift(sandbox, source):
    assert await gift_of_solutions(sandbox, source, "games", HINT) == ""


async def test_admission_tells_a_word_that_only_such_an_action_tells(sandbox):
    """So the designer is asked for another hint."""
    noted = LOCKED.replace("self.turn > 1", "self.turn > 2").replace("WORD", "xyzzy")
    noted = noted.replace('f"You said {action}.', 'f"You said {action}.{TOLD}').replace(
        'return ["say', 'return ["zx", "say'
    )
    told = noted.replace("{TOLD}", "{' A note: xyzzy.' if action == 'zx' else ''}")
    assert "xyzzy" in await values(sandbox, told)
    assert "xyzzy" not in await values(sandbox, told.replace("say:WHAT", "say:WHAT zx"))


async def test_a_hinted_play_that_skips_the_step_of_the_solution_is_found(sandbox):
    found = await gift(sandbox, NOTED, ("xyzzy",), HINT)
    assert found == "hinted play play-3 wins by 'xyzzy', which only its hint states"


async def test_a_value_that_a_tool_tells_after_a_call_which_nobody_can_make_is_a_gift(sandbox):
    """The tool tells the secret to whoever knows another secret."""
    told = SERVICE.replace(
        "    def tool_oldest(self)",
        """    def tool_search(self, text: str) -> str:
        return "Phrase: " + SECRET if text == "TEXT" else "Nothing."
    def tool_oldest(self)""",
    )
    told = told.replace('[("override"', '[("search", {"text": "TEXT"}), ("override"')
    assert await gift_of_solutions(sandbox, told.replace("TEXT", "plugh"), "tools", "Then say Xyzzy.") == FOUND
    assert await gift_of_solutions(sandbox, told.replace("TEXT", "document"), "tools", "Then say Xyzzy.") == ""


def keep(play, moves):
    return keep_findable(play, find_words(moves).__contains__)


def test_a_play_is_kept_up_to_its_first_action_with_a_word_that_only_the_author_of_moves_can_know():
    seen = ["A lamp. Actions: look wait", "A note: open it. Actions: look wait", "Open. Actions: 1..9", "End"]
    whole = PlayerView(["look", "open lamp", "7"], seen)
    assert keep(whole, whole.actions) == whole
    assert keep(PlayerView(["open lamp", "look"], seen), ["open lamp"]) == PlayerView(["open lamp"], seen[:1])
    assert keep(PlayerView(["open qqq", "look"], seen), ["open lamp"]) == PlayerView(["open qqq"], seen[:1])
    nonsense = PlayerView(["", "?!", "\\boxed{none of these}"], seen)
    assert keep(nonsense, ["open lamp", "??"]) == nonsense
    late = PlayerView(["look", "open lamp", "11"], seen)
    assert keep(late, late.actions) == PlayerView(["look", "open lamp", "11"], seen[:3])
    call, other = (Move("", (ToolCall("find", f'{{"lamp": "A {name}"}}'),)) for name in ("lamp", "lantern"))
    assert keep(PlayerView([call, call], seen), [call]) == PlayerView([call, call], seen)
    assert keep(PlayerView([call, other, call], seen), [other]) == PlayerView([call, other], seen[:2])


def test_no_more_is_kept_of_an_answer_than_is_read():
    """A program may answer with a MiB at each turn, and an audit keeps the answers of all its plays."""
    assert len(heard(Observed("\U0001f600" * 1_000_000))) == READ_CHARACTERS


@pytest.mark.parametrize(
    ("listed", "action", "found"),
    [
        ("pour 1 to 2 | pour 1 to 3 | pour 2 to 3", "pour 3 to 1", True),
        ("place 1 at 1,1 | place 2 at 3,4 | place 4 at 4,2", "place 3 at 2,4", True),
        ("place 1 at r1c1 | place 2 at r3c4 | place 4 at r4c2", "place 3 at r2c4", True),
        ("assign t1 to m1 | assign t2 to m3", "assign t3 to m2", True),
        ('{"op":"drive","dx":2,"dy":0} {"op":"drive","dx":0,"dy":-2}', '{"op":"drive","dx":2,"dy":-2}', True),
        ("move a to b | move b to c | move c to a", "move a to c", True),
        ("dial 1 2 3 4 | dial 5 6 7 8", "dial 4 7 2 8", False),
        ("pour 1 to 2 | pour 1 to 3", "pour 4 to 1", False),
        ("pour 1 to 2 | pour 1 to 3", "tip 3 to 1", False),
        ("say go to 1 | say up to 2", "say xy to 2", False),
        ("look | take", "pour 3 to 1", False),
        ("+ - ?", "^_^-^", False),
        ("100..300", "137", False),
    ],
)
def test_an_action_of_a_listed_form_is_no_secret_unless_the_form_has_many(listed, action, found):
    play = PlayerView([action], [f"Two cups. Actions: {listed}", "Done."])
    assert bool(find_unseen_words([action], [play])) == (not found)


LOCK = """
class LockEnv:
    def __init__(self, max_turns=8):
        self.max_turns = max_turns

    def reset(self, seed):
        self.seed, self.turn, self.at = seed, 0, 0
        return "A lock. Actions: 100..300", {}

    def step(self, action):
        self.turn += 1
        code = self.solution()
        self.at = self.at + 1 if action == code[self.at] else int(action == code[0])
        won = self.at == 3
        return f"Lock {self.seed}. Actions: 100..300", float(won), won, self.turn >= self.max_turns, {}

    def solution(self):
        return ["137", "251", "118"]
"""


async def test_a_combination_of_numbers_from_a_range_is_a_secret(sandbox):
    """Nobody finds three numbers of 201 each in eight turns, although each is in the range that is offered."""
    assert set(await values(sandbox, LOCK)) == {"137", "251", "118"}
    replays = [await recorded(sandbox, LOCK, seed, ("137", "251", "118"), hinted=True) for seed in (13, 15)]
    found = await audit(sandbox, job(LOCK, *replays, won=(13, 15), lost=(), unaided=(13, 15), hint="137, 251, 118."))
    assert found.finding == "hinted play play-13 wins by '137', '251', '118', which only its hint states"


CUPS = """
import random

class CupsEnv:
    def __init__(self, max_turns=5):
        self.max_turns = max_turns

    def reset(self, seed):
        draw = random.Random(seed)
        self.turn, self.order = 0, [1, 2, 3, 4, 5]
        while len(self.solution()) < 3:
            draw.shuffle(self.order)
        return self.view("Sort the cups."), {}

    def step(self, action):
        self.turn += 1
        words = action.split()
        if len(words) == 4 and words[0] == "swap" and words[1] in "12345" and words[3] in "12345":
            one, other = int(words[1]) - 1, int(words[3]) - 1
            self.order[one], self.order[other] = self.order[other], self.order[one]
        won = self.order == [1, 2, 3, 4, 5]
        return self.view("Look."), float(won), won, self.turn >= self.max_turns, {}

    def view(self, text):
        return f"{text} The cups: {self.order}. Actions: ACTIONS"

    def solution(self):
        found, order = [], list(self.order)
        for cup in range(1, 6):
            other = order.index(cup) + 1
            if other != cup:
                found.append(f"swap {other} by {cup}")
                order[other - 1] = order[cup - 1]
        return found
"""


async def test_a_hint_may_show_the_form_of_an_action_by_an_example_that_is_not_listed(sandbox):
    hint = "Put each cup in its place. Write an action like swap 4 by 1."
    for listed, finding in (
        ("swap 1 by 2 | swap 1 by 3 | swap 2 by 4", ""),
        ("swap 1 by 2 | swap 1 by 3", "its solution wins a lost instance by '4by1', which only its hint states"),
    ):
        source = CUPS.replace("ACTIONS", listed)
        assert await gift_of_solutions(sandbox, source, "games", hint, lost=(5, 6, 10)) == finding


# Each kind of gate obeys a spell of its own. A spell of the other kind makes an echo say the right one.
ECHO = """
SPELLS = ["xyzzy", "plugh"]

class GateEnv:
    def __init__(self, max_turns=8):
        self.max_turns = max_turns

    def reset(self, seed):
        self.spell, self.turn = SPELLS[seed % 2], 0
        return f"Gate {seed}. Actions: knock wait", {}

    def step(self, action):
        self.turn += 1
        won = action == self.spell
        told = f" An echo says {self.spell}." if action in SPELLS else ""
        return f"Nothing.{told} Actions: knock wait", float(won), won, self.turn >= self.max_turns, {}
"""
SPELLS = "Some gates obey Xyzzy, some obey Plugh."


@pytest.mark.parametrize("aided", [True, False])
@pytest.mark.parametrize(("seed", "sent"), [(5, ("plugh",)), (4, ("plugh", "wait"))], ids=["elsewhere", "here"])
async def test_what_a_program_tells_after_a_move_that_only_the_hint_suggests_is_found_by_no_player(
    sandbox, seed, sent, aided
):
    """No matter who sends the move, an observation must have suggested it."""
    told = msgspec.structs.replace(await recorded(sandbox, ECHO, seed, sent, aided), play="told")
    replays = await recorded(sandbox, ECHO, 4, ("xyzzy",), True), told
    asked = job(ECHO, *replays, won=(), lost=(), unaided=(4, 6), hint=SPELLS)
    assert (await audit(sandbox, asked)).finding == "hinted play play-4 wins by 'xyzzy', which only its hint states"


# Everybody greets the gate by its name. The name of another gate makes an echo say the secret.
NAMED = """
class GateEnv:
    def __init__(self, max_turns=8):
        self.max_turns = max_turns

    def reset(self, seed):
        self.name, self.turn = f"gate{seed}", 0
        return f"This is {self.name}. Greet it. Actions: knock wait", {}

    def step(self, action):
        self.turn += 1
        won = action == "xyzzy"
        told = " An echo says xyzzy." if TOLD else ""
        return f"Nothing.{told} Actions: knock wait", float(won), won, self.turn >= self.max_turns, {}
"""


@pytest.mark.parametrize(
    ("told", "greeted", "found"),
    [("action in NAMES and action != self.name", "gate5", True), ("action == 'knock'", "knock", False)],
    ids=["another name", "a listed action"],
)
async def test_what_a_program_tells_after_a_word_of_another_instance_is_found_by_no_player(
    sandbox, told, greeted, found
):
    source = NAMED.replace("TOLD", told).replace("NAMES", '("gate4", "gate5", "gate6")')
    replays = [
        await recorded(sandbox, source, 4, ("xyzzy",), True),
        await recorded(sandbox, source, 5, (greeted,), False),
    ]
    asked = job(source, *replays, won=(), lost=(), unaided=(4, 6), hint="Say xyzzy.")
    expected = "hinted play play-4 wins by 'xyzzy', which only its hint states" if found else ""
    assert (await audit(sandbox, asked)).finding == expected


# The number cannot be found in the turns that there are, but the spell tells it.
TELLING = """
import random

class LockEnv:
    def __init__(self, max_turns=6):
        self.max_turns = max_turns

    def reset(self, seed):
        self.number, self.turn = random.Random(seed).randint(100000, 999999), 0
        return "A lock. Actions: 1..999999", {}

    def step(self, action):
        self.turn += 1
        won = action == str(self.number)
        told = f"The number is {self.number}." if action == "xyzzy" else "Nothing."
        return f"{told} Actions: 1..999999", float(won), won, self.turn >= self.max_turns, {}

    def solution(self):
        return ["xyzzy", str(self.number)]
"""


async def test_a_word_that_tells_the_answer_is_a_gift_although_the_answer_wins_without_it(sandbox):
    found = await gift_of_solutions(sandbox, TELLING, "games", "Say Xyzzy first.")
    assert found == "its solution wins a lost instance by 'xyzzy', which only its hint states"
    assert await gift_of_solutions(sandbox, TELLING, "games", "Ask for the number first.") == ""
    assert "xyzzy" in await values(sandbox, TELLING)


async def test_a_word_that_tells_the_answer_is_found_on_each_instance(sandbox):
    """Each instance has its own word. The plays that test one word show what it tells, on other instances too."""
    spells = TELLING.replace("import random", 'import random\n\nSPELLS = ("xyzzy", "plugh", "sesame")')
    spells = spells.replace('action == "xyzzy"', "action in SPELLS")
    spells = spells.replace('["xyzzy", str(self.number)]', "[SPELLS[self.number % 3], str(self.number)]")
    found = await values(sandbox, spells)
    numbers = [value for value in found if value.isdigit()]
    assert set(found) - set(numbers) == {("xyzzy", "plugh", "sesame")[int(number) % 3] for number in numbers}
    assert len(found) == 4


async def test_a_word_that_hinted_plays_of_two_instances_need_is_a_gift(sandbox):
    """The solution does without it. Its moves do not win on other instances, since the word tells another answer."""
    source = TELLING.replace('["xyzzy", str(self.number)]', "[str(self.number)]")
    number = {seed: str(random.Random(seed).randint(100000, 999999)) for seed in (4, 6)}
    plays = [await recorded(sandbox, source, seed, ("xyzzy", number[seed]), True) for seed in (4, 6)]
    for replays, expected in (
        (plays, "hinted play play-6 wins by 'xyzzy', which only its hint states"),
        (plays[:1], ""),
    ):
        asked = job(source, *replays, won=(), lost=(), unaided=(4, 6), hint="Say Xyzzy first.")
        assert (await audit(sandbox, asked)).finding == expected


# Nine levers are listed. A word that nothing states makes the right one hum.
LEVERS = """
import random

class LeversEnv:
    def reset(self, seed):
        self.right = random.Random(seed).randint(1, 9)
        return "One of nine levers opens the door, the others lock it. Actions: LISTED", {}

    def step(self, action):
        over = action.startswith("pull:")
        won = action == f"pull:{self.right}"
        told = f"TOLD" if action == "say:xyzzy" else "Nothing hums."
        return f"{told} Actions: LISTED", float(won), over, False, {}

    def solution(self):
        return [f"pull:{self.right}"]
""".replace("LISTED", " ".join([*(f"pull:{number}" for number in range(1, 10)), "say:WHAT"]))


@pytest.mark.parametrize(
    "told",
    ["Lever {self.right} hums.", "Turn 3: Lever {self.right} hums.", "You look around, and lever {self.right} hums."],
)
async def test_a_word_that_chooses_among_listed_actions_is_a_gift(sandbox, told):
    source = LEVERS.replace("TOLD", told)
    right = {seed: random.Random(seed).randint(1, 9) for seed in (4, 6)}
    plays = [await recorded(sandbox, source, seed, ("say:xyzzy", f"pull:{right[seed]}"), True) for seed in (4, 6)]
    for hint, found in (
        ("Say xyzzy. Then pull the lever that hums.", "hinted play play-6 wins by 'xyzzy', which only its hint states"),
        ("Say a word. Then pull the lever that hums.", ""),
    ):
        asked = job(source, *plays, won=(), lost=(), unaided=(4, 6), hint=hint)
        assert (await audit(sandbox, asked)).finding == found


PARCELS = """
class ParcelsEnv(ToolUseBaseEnv):
    def reset(self, seed):
        self.names = random.Random(seed).sample(["amber", "birch", "coral", "denim", "ember", "fjord", "grove"], 7)
        self._state = {"sent": []}
        self._user_messages = ["One parcel of the list is damaged. Send this parcel, and no other."]
        self._message_criteria = [lambda state: state["sent"] == self.names[:1]]
        return self._user_messages[0], {}
    def tool_list(self, order: str) -> str:
        return "\\n".join(self.names if ORDERED else sorted(self.names))
    def tool_send(self, name: str) -> str:
        self._state["sent"].append(name)
        return "Sent."
    def solution(self):
        return [("list", {"order": "xyzzy"}), ("send", {"name": self.names[0]})]
"""


async def test_a_value_that_makes_a_tool_order_its_list_is_a_gift(sandbox):
    """All answers have the same names."""
    hint = "List in the order xyzzy. Then send the first parcel."
    ordered = PARCELS.replace("ORDERED", 'order == "xyzzy"')
    assert await gift_of_solutions(sandbox, ordered, "tools", hint) == FOUND
    assert await gift_of_solutions(sandbox, PARCELS.replace("ORDERED", "True"), "tools", hint) == ""


# Each answer states what remains of the numbers, and so at last the number.
REMAINING = """
import random

class RemainingEnv:
    def reset(self, seed):
        self.number, self.low, self.high, self.turn = random.Random(seed).randint(900, 963), 900, 963, 0
        return "A number from 900 to 963. Actions: guess:N", {}

    def step(self, action):
        self.turn += 1
        said = int(action[6:]) if action.startswith("guess:") and action[6:].isdigit() else 0
        if said == self.number:
            return "Right.", 1.0, True, False, {}
        self.low, self.high = (max(self.low, said + 1), self.high) if said < self.number else (self.low, said - 1)
        return f"It is one of {self.low} to {self.high}. Actions: guess:N", 0.0, False, self.turn >= 8, {}

    def solution(self):
        return halve(self.number)

def halve(number):
    low, high, said = 900, 963, []
    while not said or said[-1] != f"guess:{number}":
        middle = (low + high) // 2
        said.append(f"guess:{middle}")
        low, high = (middle + 1, high) if middle < number else (low, middle - 1)
    return said
"""


async def test_a_word_is_no_gift_if_the_other_actions_bring_the_same_to_light(sandbox):
    """A hint may name the first guess of a search."""
    found = {}
    exec(REMAINING, found)
    ways = {seed: found["halve"](random.Random(seed).randint(900, 963)) for seed in range(40)}
    seeds = [seed for seed, way in ways.items() if len(way) > 4][:4]
    plays = [await recorded(sandbox, REMAINING, seed, tuple(ways[seed]), True) for seed in seeds[:2]]
    hint = "Halve what remains: guess 931 first."
    asked = job(REMAINING, *plays, won=(), lost=tuple(seeds[2:]), unaided=tuple(seeds[:2]), hint=hint)
    assert (await audit(sandbox, asked)).finding == ""


# The keeper's name is shown, and a note that a player may read tells the first word. Nothing tells the word xyzzy.
KEEPER = """
import random

class KeeperEnv:
    def reset(self, seed):
        self.name, self.turn = "".join(random.Random(seed).choices("bcdfg", k=5)), 0
        self.left = ["greet:" + self.name, "say:alpha", "say:" + self.name[::-1]]
        return f"The keeper is {self.name}. Say a word, and the name backwards. Actions: look greet:WHO say:WHAT", {}

    def step(self, action):
        self.turn += 1
        if action == self.left[0] or (len(self.left) == 1 and action == "say:xyzzy"):
            self.left.pop(0)
        told = "A note says alpha." if action == "look" else "Well."
        over = not self.left
        return f"{told} Actions: look greet:WHO say:WHAT", float(over), over, not over and self.turn > 6, {}

    def solution(self):
        return ["look", *self.left]
"""


async def test_a_secret_is_a_gift_although_hinted_plays_also_need_a_word_that_players_find(sandbox):
    name = {seed: "".join(random.Random(seed).choices("bcdfg", k=5)) for seed in (4, 6)}
    plays = [
        await recorded(sandbox, KEEPER, seed, (f"greet:{name[seed]}", "say:alpha", "say:xyzzy"), True)
        for seed in (4, 6)
    ]
    for hint, found in (
        (
            "Greet the keeper, say alpha, and then xyzzy.",
            "hinted play play-6 wins by 'alpha', 'xyzzy', which only its hint states",
        ),
        ("Greet the keeper, say alpha, and then the name.", ""),
    ):
        asked = job(KEEPER, *plays, won=(), lost=(), unaided=(4, 6), hint=hint)
        assert (await audit(sandbox, asked)).finding == found
