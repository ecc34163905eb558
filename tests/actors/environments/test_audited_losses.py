"""Audits of instances that nobody won: what the solution does there, and words that only a hint tells."""

import random

import msgspec
import pytest

from actors.environments.admission import validate
from actors.environments.audit import audit
from actors.environments.gifts import PlayerView, find_common_sequence, find_unseen_words, leave_out
from actors.environments.tools.evidence import collect_leaves
from actors.text.conversation import Move
from actors.text.leaks import find_leaked
from spade.codec import answer_digest
from spade.protocol import AuditJob, Faulted, RecordedPlay, Recording, ToolCall, UnaidedInstance
from tests.actors.odd_programs import LIMITS, SEARCH
from tests.actors.tool_programs import TICKETS

# Half of the instances cannot be won: the door that opens is named, but it opens on even seeds alone.
LUCKY = """
import random

class LuckyDoorsEnv:
    def reset(self, seed):
        self.right = random.Random(seed).choice("abcdefgh")
        self.kind = seed % 2
        return f"Door {self.right} is open. Actions: a b c d e f g h", {}
    def step(self, action):
        won = action == self.right and self.kind == 0
        return "You go in." if won else "It is shut.", float(won), True, False, {}
    def solution(self):
        return [self.right]
"""
# On odd seeds a word wins that nothing but the hint tells.
SECRET = LUCKY.replace(
    "action == self.right and self.kind == 0", 'action == (self.right if self.kind == 0 else "xyzzy")'
)
SECRET = SECRET.replace("return [self.right]", 'return [self.right if self.kind == 0 else "xyzzy"]')
EVEN, ODD = (2, 4, 6), (5, 7, 9, 11)


async def recorded(sandbox, source, seed, actions, hinted, calls=()):
    answers = [await sandbox.open("recorded", source, seed, 8)]
    for action, called in zip(actions, calls or [()] * len(actions), strict=True):
        answers.append(await sandbox.step("recorded", len(answers), action, called))
    sandbox.close("recorded")
    assert not any(isinstance(answer, Faulted) for answer in answers), answers
    recording = Recording(actions, b"".join(map(answer_digest, answers)), 8, calls)
    return RecordedPlay(f"play-{seed}", seed, recording, hinted=hinted)


def job(source, *replays, won=EVEN, lost=ODD, hint="", unaided=None, best=0.0):
    """`unaided` are instances that no play without the hint won, `lost` ones that no play won."""
    unaided = tuple(UnaidedInstance(seed, best) for seed in (lost if unaided is None else unaided))
    return AuditJob("e000001", 1, source, replays, won, 3, 1.0, 8, 77, 60.0, lost=lost, hint=hint, unaided=unaided)


async def solutions_of(sandbox, source, domain="games", **changes):
    outcome = await audit(sandbox, job(source, **changes), domain)
    assert outcome.finding == ""
    assert sandbox.live == 0
    return outcome.tried, outcome.solved


async def test_a_solution_is_played_on_lost_instances_and_wins_where_they_can_be_won(sandbox):
    assert await solutions_of(sandbox, LUCKY) == (4, 0)
    assert await solutions_of(sandbox, LUCKY, lost=(3, 4)) == (2, 1)
    assert await solutions_of(sandbox, LUCKY, lost=(2, 4)) == (2, 2)
    assert await solutions_of(sandbox, SECRET) == (4, 4)


async def test_a_solution_in_words_proves_nothing(sandbox):
    for words in ('return "go in"', 'return ""'):
        assert await solutions_of(sandbox, LUCKY.replace("return [self.right]", words)) == (0, 0)
    assert await solutions_of(sandbox, LUCKY.replace("def solution", "def unasked")) == (0, 0)


async def test_a_solution_that_lists_actions_on_some_instances_alone_has_lost_the_others(sandbox):
    """Else it would describe itself exactly where an instance cannot be won."""
    shy = LUCKY.replace("return [self.right]", 'return [self.right] if self.kind == 0 else "luck"')
    assert await solutions_of(sandbox, shy) == (4, 0)
    assert await solutions_of(sandbox, shy, lost=(2, 3)) == (2, 1)


@pytest.mark.parametrize("answer", ["raise RuntimeError", "return 7", "return [1, 2]"])
async def test_a_solution_that_fails_has_lost(sandbox, answer):
    assert await solutions_of(sandbox, LUCKY.replace("return [self.right]", answer)) == (4, 0)


async def test_a_solution_is_sent_in_the_form_that_the_program_reads(sandbox):
    boxed = LUCKY.replace("action == self.right", "action == r'\\boxed{%s}' % self.right")
    assert await solutions_of(sandbox, boxed, lost=(2, 4)) == (2, 0)
    outcome = await audit(sandbox, msgspec.structs.replace(job(boxed, lost=(2, 4)), reads="box"))
    assert (outcome.tried, outcome.solved) == (2, 2)


@pytest.mark.parametrize("said", ["}", "x}{", " go", "go\\n", "go <think>", "go </think>"])
async def test_a_solution_that_no_player_can_say_has_lost(sandbox, said):
    """A box holds no brace alone, no space at its ends and no mark of thinking: to need one is luck of the seed."""
    unsayable = SECRET.replace("xyzzy", said)
    assert await solutions_of(sandbox, unsayable) == (4, 0)
    lone = LUCKY.replace("action == self.right and self.kind == 0", f'action == "{said}"')
    lone = lone.replace("return [self.right]", f'return ["{said}"]')
    verdict = await validate(sandbox, lone, 5, LIMITS)
    assert (verdict.stages[-1].name, verdict.passed) == ("solution", False)


async def test_calls_of_a_solution_are_played_on_lost_instances_and_then_done(sandbox):
    assert await solutions_of(sandbox, TICKETS, "tools", won=(), lost=(1, 2)) == (2, 2)
    deaf = TICKETS.replace("def solution", "def unasked")
    assert await solutions_of(sandbox, deaf, "tools", won=(), lost=(1, 2)) == (2, 0)


async def test_calls_that_no_player_can_send_have_lost(sandbox):
    unsayable = TICKETS.replace('"solved"', '"solved </think>"')
    assert await solutions_of(sandbox, unsayable, "tools", won=(), lost=(1, 2)) == (2, 0)
    stage = (await validate(sandbox, unsayable, 5, LIMITS, domain="tools")).stages[-1]
    reason = "no player can send the solution's call with a mark of thinking"
    assert (stage.name, stage.passed, reason in stage.reason) == ("solution", False, True)


async def test_a_fault_of_ours_proves_nothing_about_a_solution(sandbox):
    class Failing:
        async def child(self, source, twin):
            return Faulted("infrastructure", "overload")

        def __getattr__(self, name):
            return getattr(sandbox, name)

    outcome = await audit(Failing(), job(LUCKY))
    assert (outcome.finding, outcome.tried, outcome.solved) == ("", 0, 0)


async def gift(sandbox, source, actions, hint, seed=3, hinted=True, **changes):
    outcome = await audit(
        sandbox, job(source, await recorded(sandbox, source, seed, actions, hinted), hint=hint, **changes)
    )
    return outcome.finding


async def test_a_hint_that_gives_away_a_word_which_wins_where_nobody_had_won_is_found(sandbox):
    found = await gift(sandbox, SECRET, ("xyzzy",), "Where no door opens, say Xyzzy.")
    assert found == "hinted play play-3 wins by 'xyzzy', which only its hint states"
    described = SECRET.replace("def solution", "def unasked")
    assert await gift(sandbox, described, ("xyzzy",), "Where no door opens, say Xyzzy.") == found


@pytest.mark.parametrize(
    ("source", "changes"),
    [
        (SECRET, {"hint": "Try what magicians say."}),
        (SECRET.replace("def solution", "def unasked"), {"hinted": False}),
        (SECRET.replace("Door {", "Xyzzy is a word. Door {"), {}),
        (SECRET, {"lost": ()}),
        # It wins this instance alone, as an answer to which a method leads.
        (
            SECRET.replace('else "xyzzy")\n', 'else "xyzzy" if self.seed == 3 else "")\n').replace(
                "self.kind = ", "self.seed = seed; self.kind = "
            ),
            {},
        ),
    ],
    ids=["not told", "unhinted", "shown", "nothing lost", "this instance alone"],
)
async def test_a_word_that_is_not_a_gift_is_left_alone(sandbox, source, changes):
    hint = changes.pop("hint", "Where no door opens, say Xyzzy.")
    assert await gift(sandbox, source, ("xyzzy",), hint, **changes) == ""


async def test_a_word_that_the_winner_could_have_left_out_is_no_gift(sandbox):
    patient = LUCKY.replace("and self.kind == 0", "").replace("float(won), True", "float(won), won")
    actions = ("crane", random.Random(3).choice("abcdefgh"))
    assert await gift(sandbox, patient, actions, "Begin with crane.", lost=(3, 3)) == ""


# An honest world of four doors. The word ends it early with most of a win's reward.
SHORTCUT = """
import random

class ShortcutEnv:
    def reset(self, seed):
        self.left = random.Random(seed).choices("abcdefgh", k=4)
        return f"Four doors: {self.left}. Actions: a b c d e f g h say:WHAT", {}
    def step(self, action):
        if action == "say:WORD":
            return "You are nearly there.", PAID, True, False, {}
        if action != self.left.pop(0):
            return "It is shut.", LOST, True, False, {}
        return f"Then {self.left}. Actions: a b c d e f g h say:WHAT", float(not self.left), not self.left, False, {}
    def solution(self):
        return list(self.left)
"""


@pytest.mark.parametrize(("word", "paid", "lost"), [("xyzzy", 0.99, 0.0), ("4271", 0.2, 0.0), ("xyzzy", -0.5, -1.0)])
async def test_a_word_that_only_the_hint_tells_is_found_although_it_wins_nothing(sandbox, word, paid, lost):
    """The regret pays for any higher return."""
    source = SHORTCUT.replace("WORD", word).replace("PAID", f"{paid}").replace("LOST", f"{lost}")
    for won in (EVEN, ()):
        found = await gift(
            sandbox, source, (f"say:{word}",), f"Say {word} at once.", won=won, lost=(), unaided=ODD, best=lost
        )
        assert found == f"hinted play play-3 returns {paid:.2g} by '{word}', which only its hint states"
    assert await gift(sandbox, source, (f"say:{word}",), f"Say {word} at once.", lost=(), unaided=ODD, best=paid) == ""
    assert (
        await gift(sandbox, source, (f"say:{word}",), "Take the doors in order.", lost=(), unaided=ODD, best=lost) == ""
    )


async def test_a_word_is_found_although_the_hint_wins_every_instance(sandbox):
    """In a window of one chunk each instance has a hinted play, so none is lost by both arms."""
    found = await gift(sandbox, SECRET, ("xyzzy",), "Where no door opens, say Xyzzy.", lost=(), unaided=ODD)
    assert found == "hinted play play-3 wins by 'xyzzy', which only its hint states"
    found = await gift_of_solutions(sandbox, NUMBERS, "games", "First say Xyzzy.", won=EVEN, lost=(), unaided=(5, 8))
    assert found == "its solution wins a lost instance by 'xyzzy', which only its hint states"


@pytest.mark.parametrize(
    "said", ["\uff38\uff39\uff3a\uff3a\uff39", "\U0001d431\U0001d432\U0001d433\U0001d433\U0001d432", "x\u00fdzzy"]
)
async def test_a_word_that_the_hint_writes_with_other_characters_is_found(sandbox, said):
    found = await gift(sandbox, SECRET, ("xyzzy",), f"Where no door opens, say {said}.")
    assert found == "hinted play play-3 wins by 'xyzzy', which only its hint states"


@pytest.mark.parametrize("signs", ["^_^", "___", "..-", "\u2191 \u2191 \u2193 \u2193"])
async def test_signs_that_only_the_hint_tells_are_found(sandbox, signs):
    found = await gift(sandbox, SECRET.replace("xyzzy", signs), (signs,), f"Where no door opens, send {signs}.")
    assert found == f"hinted play play-3 wins by {signs!r}, which only its hint states"


async def test_signs_of_an_example_that_begin_as_a_solution_are_no_gift(sandbox):
    """An honest hint shows a path of signs, and another instance needs a part of it."""
    path = SECRET.replace("xyzzy", ">>^")
    hint = "Count first. For example, >>^^ goes two to the right and two up."
    outcome = await audit(sandbox, job(path, hint=hint))
    assert (outcome.finding, outcome.solved) == ("", 4)


async def test_instances_that_the_hint_alone_won_are_not_luck(sandbox):
    assert await solutions_of(sandbox, LUCKY, lost=(3, 4), unaided=ODD) == (2, 1)


async def values(sandbox, source):
    verdict = await validate(sandbox, source, 5, LIMITS)
    assert verdict.passed, verdict.stages[-1]
    return verdict.values


ALWAYS = SECRET.replace("if self.kind == 0 else", "if False else")
LOCKED = """
class LockedEnv:
    def reset(self, seed):
        self.rng = random.Random(seed)
        self.right = self.rng.choice("abcdefgh")
        self.open = False
        self.turn = 0
        return f"A locked box, door {self.right}. Actions: a b c d e f g h say:WHAT", {}
    def step(self, action):
        self.turn += 1
        self.open = self.open or action == "say:WORD"
        won = self.open and action == self.right
        return f"You said {action}. Actions: a b c d e f g h say:WHAT", float(won), won, self.turn > 1, {}
    def solution(self):
        return ["say:WORD", self.right]
"""


async def test_admission_tells_the_words_that_each_solution_needs_and_no_observation_shows(sandbox):
    """The program repeats what is said, which tells a player nothing."""
    (word,) = await values(sandbox, LOCKED.replace("WORD", "xyzzy"))
    assert word == "xyzzy"
    assert find_leaked("Say XYZZY first.", (word,))
    assert not find_leaked("Say the magic word first.", (word,))
    for number in ("4271", "103.7", "1,250"):
        (word,) = await values(sandbox, LOCKED.replace("WORD", number))
        assert find_leaked(f"Say {number} first.", (word,))
        assert not find_leaked("Say 1037 or 125 first.", (word,))


async def test_admission_tells_the_words_of_some_instances_too(sandbox):
    """A secret may be needed on half of the instances alone, so that the win rate is in the band."""
    half = LOCKED.replace("WORD", "xyzzy").replace(
        "self.turn = 0", "self.turn = 0\n        self.easy = self.rng.random() < 0.5"
    )
    half = half.replace("self.open and", "(self.open or self.easy) and")
    half = half.replace(
        'return ["say:xyzzy", self.right]', 'return [self.right] if self.easy else ["say:xyzzy", self.right]'
    )
    hard = [key for key in range(5) if (await validate(sandbox, half, key, LIMITS)).values == ("xyzzy",)]
    assert len(hard) >= 2


@pytest.mark.parametrize(
    "source",
    [
        LOCKED.replace("WORD", "xyzzy").replace("A locked box", "A locked box that says xyzzy"),
        LOCKED.replace("WORD", "xyzzy").replace("self.open and", ""),  # the solution wins without it
        LOCKED.replace("WORD", "a"),
        LOCKED.replace("WORD", "xyzzy").replace("def solution", "def unasked"),
    ],
    ids=["shown", "not needed", "short", "described"],
)
async def test_admission_tells_no_words_that_a_player_may_find_or_leave_out(sandbox, source):
    assert await values(sandbox, source) == ()


HALVING = SEARCH.replace("31", "1001").replace("..30", "..1000").replace("max_turns: int = 4", "max_turns: int = 10")
HALVING = HALVING.replace(
    "return [str(self.goal)]",
    """
        guesses, low, high = [500], 1, 1000
        while guesses[-1] != self.goal:
            low, high = (guesses[-1] + 1, high) if guesses[-1] < self.goal else (low, guesses[-1] - 1)
            guesses.append((low + high) // 2)
        return list(map(str, guesses))""",
)


async def test_admission_tells_the_last_guess_of_a_search_and_not_the_steps_to_it(sandbox):
    """An honest hint names the first guesses of a binary search."""
    found = await values(sandbox, HALVING)
    assert not find_leaked("Begin with 500, then send 250 or 750, then halve again: 125, 375, 625 or 875.", found)
    assert 1 <= len(found) <= 2
    assert find_leaked(f"Send {found[0]}.", found)


async def test_a_secret_that_is_shown_where_nobody_needs_it_is_unseen(sandbox):
    shown = SECRET.replace(
        'return f"Door', 'told = "Read xyzzy. " if self.kind == 0 else ""\n        return told + f"Door'
    )
    assert await gift(sandbox, shown, ("xyzzy",), "Where no door opens, say Xyzzy.")


def test_words_are_unseen_until_an_observation_tells_them_before_they_are_said():
    assert find_unseen_words(["say:xyzzy"], [PlayerView(["say:xyzzy"], ["Hello.", "You said xyzzy."])]) == [
        "say",
        "xyzzy",
    ]
    assert (
        find_unseen_words(["say:xyzzy"], [PlayerView(["look", "say:xyzzy"], ["say what?", "A note: XYZZY", ""])]) == []
    )
    assert find_unseen_words(["x-y-z-q"], []) == ["xyzq"]
    assert find_unseen_words(["say x.y z-q 5", "\\boxed{Plugh}", "fr\u200bee"], []) == ["say", "xyzq5", "plugh", "free"]
    assert find_unseen_words(["5", "42", "move 1 2", "0.5", "turn 1.5 2"], []) == ["move", "turn"]
    assert find_unseen_words(["set 0.125", "1,250", "1.2.3", "a.b"], []) == ["set", "0.125", "1250", "1.2.3"]
    assert find_unseen_words(["9.4e41", " ↑↑↓↓ ", "#*", "say ↑↑↓↓"], []) == ["4e41", "↑↑↓↓", "say"]
    signs = ["^_^", "___", "..-", "↑ ↑ ↓", "- -", "..."]
    assert find_unseen_words(signs, []) == signs
    # The last observation comes when the play is over.
    assert find_unseen_words(["xyzzy"], [PlayerView(["look"], ["A box.", "It was xyzzy."])]) == ["xyzzy"]
    assert leave_out(["say:xyzzy", "look"], ["xyzzy"]) == ["look"]


def test_a_message_keeps_its_other_calls_without_a_word():
    close, log = ToolCall("close", '{"order": 41}'), ToolCall("log", '{"text": "finished"}')
    assert leave_out([Move("", (close, log)), Move("", (log,))], ["finished"]) == [Move("", (close,))]


def test_a_number_is_written_without_an_exponent():
    call = ToolCall("weigh", '{"dose": 0.00005, "distance": 3e16, "rate": -1.50}')
    numbers = [leaf for leaf, is_text in collect_leaves([Move("", (call,))]).items() if not is_text]
    assert numbers == ["0.00005", "30000000000000000", "-1.5"]


def test_a_sequence_that_solves_every_instance_is_kept_by_its_beginning():
    assert find_common_sequence([list("abbacdabcd"), list("abbacdabcd")]) == "a b b a c d a b"
    assert find_leaked("Press a, b, b, a, c, d, a, b, c, d.", ["a b b a c d a b"])
    pulls = [f"pull:{number}" for number in (3, 1, 4, 3)]
    assert find_common_sequence([pulls, pulls]) == "3 1 4 3"
    assert find_leaked("Pull 3, then 1, then 4 and 3 again.", [find_common_sequence([pulls, pulls])])
    assert find_common_sequence([["go"] * 4, ["go"] * 4]) == "go go go go"
    assert find_common_sequence([list("abba"), list("abbb")]) == ""
    assert find_common_sequence([list("abb"), list("abb")]) == ""
    assert find_common_sequence([list("abbacdab")]) == ""


# On odd seeds the numbers count only after a word that nothing but the hint tells.
NUMBERS = """
import random

class NumbersEnv:
    def reset(self, seed):
        self.left = random.Random(seed).sample(range(100, 999), 2)
        self.open = seed % 2 == 0
        self.right = " ".join(map(str, self.left))
        return f"Enter {self.right}.", {}
    def step(self, action):
        self.open = self.open or action == SECRET
        if self.open and action == str(self.left[0]):
            self.left.pop(0)
        won = not self.left
        return "Go on.", float(won), won or action == "end", False, {}
    def solution(self):
        return ([] if self.open else [SECRET]) + list(map(str, self.left))
"""
# The same as a service.
SERVICE = """
class ArchiveEnv(ToolUseBaseEnv):
    def reset(self, seed):
        self.number = str(random.Random(seed).randrange(100, 999))
        self._state = {"open": seed % 2 == 0, "archived": []}
        self._user_messages = ["Archive the oldest document."]
        self._message_criteria = [lambda state: self.number in state["archived"]]
        return self._user_messages[0], {}
    def tool_oldest(self) -> str:
        return f"Number {self.number}"
    def tool_override(self, phrase: str) -> str:
        self._state["open"] = self._state["open"] or phrase == SECRET
        return "Done."
    def tool_archive(self, number: str) -> str:
        if self._state["open"]:
            self._state["archived"].append(number)
        return "Done."
    def solution(self):
        first = [] if self._state["open"] else [("override", {"phrase": SECRET})]
        return [*first, ("oldest", {}), ("archive", {"number": self.number})]
"""


async def gift_of_solutions(sandbox, source, domain, hint, secret='"xyzzy"', won=(), **changes):
    outcome = await audit(sandbox, job(source.replace("SECRET", secret), won=won, hint=hint, **changes), domain)
    assert sandbox.live == 0
    return outcome.finding


@pytest.mark.parametrize(("source", "domain"), [(NUMBERS, "games"), (SERVICE, "tools")], ids=["game", "tools"])
async def test_a_hint_that_gives_away_what_a_solution_needs_on_a_lost_instance_is_found(sandbox, source, domain):
    """The secret is needed on some instances alone, so admission may miss it, and its other steps differ."""
    found = await gift_of_solutions(sandbox, source, domain, "First say Xyzzy.", lost=(5, 8))
    assert found == "its solution wins a lost instance by 'xyzzy', which only its hint states"
    assert "'4271'" in await gift_of_solutions(sandbox, source, domain, "First say 4271.", '"4271"')
    assert await gift_of_solutions(sandbox, source, domain, "First say the magic word.") == ""
    assert await gift_of_solutions(sandbox, source, domain, "First say Xyzzy.", lost=(6, 8)) == ""
    shown = source.replace("Enter", "Enter xyzzy,").replace("-> str:", '-> str:\n        """Not xyzzy."""')
    assert await gift_of_solutions(sandbox, shown, domain, "First say Xyzzy.") == ""
    # The program opens anyway, so the solution does without the word.
    needless = source.replace('self._state["open"] or', "True or").replace("if self._state", "if True or self._state")
    needless = needless.replace("if self.open and", "if")
    assert await gift_of_solutions(sandbox, needless, domain, "First say Xyzzy.") == ""
    # Any word opens it.
    anything = source.replace("action == SECRET", "action.isalpha()").replace("phrase == SECRET", "phrase.isalpha()")
    assert await gift_of_solutions(sandbox, anything, domain, "First say Xyzzy.") == ""


PIECES = [
    ("digits: list[int]", {"digits": [4, 2, 7, 1]}, "First say 4, 2, 7, 1."),
    ("digits: list[int]", {"digits": [4, 2, 7, 1]}, "First say 4271."),
    ("digits: list[int]", {"digits": [4, 2, 7, 1]}, "First say 4, then 2, then 7 and at last 1."),
    ("row: int, shelf: int", {"row": 37, "shelf": 58}, "First choose row 37 and shelf 58."),
    ("a: int, b: int, c: int, d: int", {"a": 4, "b": 2, "c": 7, "d": 1}, "First say 4 2 7 1."),
    ("a: int, b: int, c: int, d: int", {"a": 4, "b": 2, "c": 7, "d": 1}, "override(a=4, b=2, c=7, d=1)"),
    ("letters: list[str]", {"letters": list("xyzzy")}, "First spell xyzzy."),
    ("words: list[str]", {"words": ["qu", "ux", "zo"]}, "First say qu, ux and zo: qu ux zo."),
    ("cells: list[list[int]]", {"cells": [[1, 2], [3, 4]]}, "First mark (1, 2), (3, 4)."),
    ("options: dict", {"options": {"4": True, "2": True, "7": True, "1": True}}, "First choose 4, 2, 7, 1."),
]
"""Signatures of a tool that takes a secret in pieces, the secret, and hints that tell it."""


def in_pieces(signature, arguments):
    asked = SERVICE.replace("phrase: str", signature).replace('{"phrase": SECRET}', f"{arguments!r}")
    same = " and ".join(f"{name} == {value!r}" for name, value in arguments.items())
    return asked.replace("phrase == SECRET", same)


@pytest.mark.parametrize(("signature", "arguments", "hint"), PIECES)
async def test_a_secret_that_a_call_takes_in_pieces_is_given_away_as_a_whole(sandbox, signature, arguments, hint):
    source = in_pieces(signature, arguments)
    found = await gift_of_solutions(sandbox, source, "tools", hint)
    assert found.startswith("its solution wins a lost instance by ")
    assert await gift_of_solutions(sandbox, source, "tools", "First override 2 of the 4 locks.") == ""
    assert await gift_of_solutions(sandbox, source, "tools", hint, lost=(6, 8)) == ""
    shown = source.replace("the oldest document.", f"the oldest document. {hint}")
    assert await gift_of_solutions(sandbox, shown, "tools", hint) == ""


@pytest.mark.parametrize(("signature", "arguments", "hint"), PIECES)
async def test_admission_tells_a_secret_that_a_call_takes_in_pieces(sandbox, signature, arguments, hint):
    always = in_pieces(signature, arguments).replace("seed % 2 == 0", "False")
    verdict = await validate(sandbox, always, 5, LIMITS, domain="tools")
    assert verdict.passed, verdict.stages[-1]
    assert find_leaked(hint, verdict.values)
    assert not find_leaked("First override 2 of the 4 locks.", verdict.values)


async def test_a_number_of_a_hint_that_one_solution_happens_to_need_is_no_gift(sandbox):
    """An honest hint may name a number as an example, and it may be the answer of an instance."""
    happens = "str(random.Random(self.left[0]).randrange(100, 999))"
    numbers = [
        str(random.Random(random.Random(seed).sample(range(100, 999), 2)[0]).randrange(100, 999)) for seed in ODD
    ]
    assert await gift_of_solutions(sandbox, NUMBERS, "games", f"Not {numbers[0]}, surely.", happens) == ""
    times = f"(lambda number: f'at {{number[0]}}:{{number[1:]}}')({happens})"
    hint = f"Not at {numbers[0][0]}:{numbers[0][1:]}, surely."
    assert await gift_of_solutions(sandbox, NUMBERS, "games", hint, times) == ""


@pytest.mark.parametrize("form", ["{}:15", "2026-11-{}", "v-{}"])
async def test_a_time_or_a_date_of_a_hint_is_an_example_until_a_second_solution_needs_it(sandbox, form):
    secret = f"{form!r}.format(self.number)"
    needed = [form.format(random.Random(seed).randrange(100, 999)) for seed in ODD]
    word = form == "v-{}"
    one = await gift_of_solutions(sandbox, SERVICE, "tools", f"Say it as in {needed[0]}.", secret)
    assert one == (f"its solution wins a lost instance by '{needed[0]}', which only its hint states" if word else "")
    both = await gift_of_solutions(sandbox, SERVICE, "tools", f"Say {' or '.join(needed)}.", secret)
    assert both.startswith("its solution wins a lost instance by ")


async def test_a_hint_that_lists_the_numbers_of_all_instances_gives_them_away(sandbox):
    """Each lost instance needs another number, so that no number is needed twice."""
    codes = {number: str(random.Random(number).randrange(1_000, 9_999)) for number in range(100, 999)}
    needed = [codes[random.Random(seed).sample(range(100, 999), 2)[0]] for seed in ODD]
    assert len({*needed}) == len(ODD)
    secret = "str(random.Random(int(self.right[:3])).randrange(1_000, 9_999))"
    found = await gift_of_solutions(sandbox, NUMBERS, "games", f"The codes are {', '.join(needed)}.", secret)
    assert found == f"its solution wins a lost instance by '{needed[1]}', which only its hint states"


# A player finds the name of the tool by looking, while the solution knows it. With TRAP, whoever looks has lost.
TOOL = """
import random

class ToolEnv:
    def reset(self, seed):
        self.tool = random.Random(seed).choice(["lantern", "ladder"])
        self.lost = False
        return "Something bars the way. What do you use? Actions: look wait", {}
    def step(self, action):
        if action == "use " + self.tool and not self.lost:
            return "The way is open.", 1.0, True, False, {}
        self.lost = self.lost or TRAP
        told = f" There is a {self.tool}." if action == "look" else ""
        return f"Nothing happens.{told} Actions: look wait", 0.0, False, False, {}
    def solution(self):
        return ["use " + self.tool]
"""


@pytest.mark.parametrize("trap", [False, True])
async def test_a_word_that_a_player_can_find_in_time_is_no_gift(sandbox, trap):
    """The solution goes straight on. It is a gift if whoever learns the word has lost already."""
    hint = "Look first. If there is a lantern, use lantern. If there is a ladder, use ladder."
    found = await gift_of_solutions(sandbox, TOOL.replace("TRAP", f"{trap}"), "games", hint)
    assert bool(found) == trap


# Whoever guesses wrong is told the word, when it is too late: the play goes on and can no more be won. IN_TIME gives
# another try.
SEALED = """
import random

class SealedEnv:
    def reset(self, seed):
        self.locks = random.Random(seed).randrange(2, 9)
        self.sealed = False
        return f"A vault of {self.locks} locks. Actions: wait say:WORD", {}
    def step(self, action):
        if action == "say:xyzzy" and (IN_TIME or not self.sealed):
            return "It opens.", 1.0, True, False, {}
        over, self.sealed = self.sealed and not IN_TIME, True
        return "The word was xyzzy. Actions: wait say:WORD", 0.2 * over, over, False, {}
"""
TELLING = 'def solution(self):\n        return ["say:xyzzy"]\n'


@pytest.mark.parametrize("in_time", [False, True])
async def test_a_word_that_other_plays_were_told_too_late_is_a_gift(sandbox, in_time):
    """Plays of the same instance were told it, and nobody who is told can win."""
    source = SEALED.replace("IN_TIME", f"{in_time}")
    replays = [await recorded(sandbox, source, seed, ("say:xyzzy",), hinted=True) for seed in (13, 15)]
    replays += [await recorded(sandbox, source, seed, ("wait", "wait"), hinted=False) for seed in (13, 15)]
    for listed in (source, f"{source}    {TELLING}"):
        outcome = await audit(sandbox, job(listed, *replays, won=(13, 15), unaided=(13, 15), hint="Say xyzzy."))
        assert outcome.finding.endswith("by 'xyzzy', which only its hint states") is not in_time


@pytest.mark.parametrize("trap", [False, True])
async def test_admission_tells_a_word_that_its_plays_were_told_too_late(sandbox, trap):
    # Random play knows the solution's words here, and wins by them.
    limits = msgspec.structs.replace(LIMITS, random_win_share=1.0)
    verdict = await validate(sandbox, TOOL.replace("TRAP", f"{trap}"), 3, limits)
    assert verdict.passed, verdict.stages[-1]
    assert bool(verdict.values) == trap


async def test_a_word_that_agents_sent_elsewhere_is_not_found_by_sending_it(sandbox):
    """Random actions include those of agents. Here the secret of a hinted play would win at once."""
    replays = [await recorded(sandbox, SECRET, seed, ("xyzzy",), hinted=True) for seed in (13, 15)]
    outcome = await audit(sandbox, job(SECRET, *replays, won=(), hint="Say xyzzy."))
    assert outcome.finding == "hinted play play-13 wins by 'xyzzy', which only its hint states"


async def test_a_hint_may_say_how_a_service_is_left(sandbox):
    """The player may answer `done` in the message of the last call, before a result has told it that all is done."""
    same = SERVICE.replace("str(random.Random(seed).randrange(100, 999))", '"417"').replace("SECRET", '"xyzzy"')
    same = same.replace("Done.", "Ok.")
    calls = ((ToolCall("oldest", "{}"),), (ToolCall("archive", '{"number": "417"}'),))
    replay = await recorded(sandbox, same, 6, ("", "done"), True, calls)
    hint = "Ask for the oldest document, archive its number, and say that you are done."
    outcome = await audit(sandbox, job(same, replay, won=(), lost=(), hint=hint, unaided=(6, 8)), "tools")
    assert outcome.finding == ""


async def test_a_hint_may_say_how_a_service_is_left_after_a_call_with_a_computed_number(sandbox):
    """Nobody is told the number, so what the program answers to the call does not count as told."""
    adds = SERVICE.replace("Done.", "Ok.").replace("str(random.Random(seed).randrange(100, 999))", "100 + seed")
    adds = adds.replace("number: str", "number: int").replace(
        'f"Number {self.number}"', 'f"Number {self.number - 40}, after the 40 newest ones"'
    )
    hint = "Add the numbers, archive the sum, and answer done."
    assert await gift_of_solutions(sandbox, adds, "tools", hint, lost=(6, 8)) == ""
    assert "'done'" in await gift_of_solutions(sandbox, adds, "tools", "First say done.", '"done"')


async def test_a_word_beside_a_box_is_given_away_as_any_other(sandbox):
    """A player may write a box inside a box, and the program gets all of it."""
    boxed = SECRET.replace("def solution", "def unasked").replace(
        "action ==", "action.replace(r'\\boxed{now} ', '') =="
    )
    found = await gift(sandbox, boxed, ("\\boxed{now} xyzzy",), "Where no door opens, say Xyzzy.")
    assert found == "hinted play play-3 wins by 'xyzzy', which only its hint states"


async def test_a_hint_may_use_words_of_a_text_that_the_player_writes(sandbox):
    """The value of an argument is a secret as a whole, as in admission."""
    writes = SERVICE.replace("phrase == SECRET", "'finished' in phrase")
    hint = "Before you archive, write that all is finished."
    assert await gift_of_solutions(sandbox, writes, "tools", hint, '"The work is finished."') == ""
    assert await gift_of_solutions(sandbox, writes, "tools", "Write: the work is finished.", '"The work is finished."')


# The word opens the door. So does doing nothing twice after the right door was named, which no player does.
IDLE = """
class IdleEnv:
    def reset(self, seed):
        self.right, self.turn, self.said, self.named, self.idle = str(seed % 29 + 1), 0, False, False, 0
        return f"Thirty doors. It is the one after {seed % 29}. Actions: 1..30", {}
    def step(self, action):
        self.turn += 1
        self.idle = 0 if action else self.idle + 1
        self.said = self.said or action == "xyzzy"
        if action.isdigit():
            if action != self.right or self.named:
                return "A trap.", 0.0, True, False, {}
            self.named = True
        won = self.named and (self.said or self.idle > 1)
        return "Thirty doors. Actions: 1..30", float(won), won, self.turn > 5, {}
    def solution(self):
        return ["xyzzy", self.right]
"""


async def test_a_word_is_given_away_although_doing_nothing_wins_in_its_place(sandbox):
    """A play without the word goes on as a player would. Otherwise the program could recognise it."""
    found = await gift_of_solutions(sandbox, IDLE, "games", "First say xyzzy.", won=EVEN)
    assert found == "its solution wins a lost instance by 'xyzzy', which only its hint states"


async def test_admission_tells_a_word_although_doing_nothing_wins_in_its_place(sandbox):
    assert await values(sandbox, IDLE) == ("xyzzy",)
