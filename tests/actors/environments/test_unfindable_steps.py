"""A hint that states a word is a gift, if the program tells the word only after an action that no player can find."""

import pytest

from actors.environments.gifts import Hearing, heard, keep_findable
from actors.environments.tools.evidence import READ_CHARACTERS
from actors.text.conversation import Move
from spade.protocol import Observed, ToolCall
from tests.actors.environments.test_audited_losses import (
    LOCKED,
    SECRET,
    SERVICE,
    gift,
    gift_of_solutions,
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


def test_a_play_is_kept_up_to_its_first_action_with_a_word_that_only_the_author_of_moves_can_know():
    seen = ["A lamp. Actions: look wait", "A note: open it. Actions: look wait", "Open. Actions: 1..9", "End"]
    whole = Hearing(["look", "open lamp", "7"], seen)
    assert keep_findable(whole, whole.actions) == whole
    assert keep_findable(Hearing(["open lamp", "look"], seen), ["open lamp"]) == Hearing(["open lamp"], seen[:1])
    assert keep_findable(Hearing(["open qqq", "look"], seen), ["open lamp"]) == Hearing(["open qqq"], seen[:1])
    nonsense = Hearing(["", "?!", "\\boxed{none of these}"], seen)
    assert keep_findable(nonsense, ["open lamp", "??"]) == nonsense
    late = Hearing(["look", "open lamp", "11"], seen)
    assert keep_findable(late, late.actions) == Hearing(["look", "open lamp", "11"], seen[:3])
    call, other = (Move("", (ToolCall("find", f'{{"lamp": "A {name}"}}'),)) for name in ("lamp", "lantern"))
    assert keep_findable(Hearing([call, call], seen), [call]) == Hearing([call, call], seen)
    assert keep_findable(Hearing([call, other, call], seen), [other]) == Hearing([call, other], seen[:2])


def test_no_more_is_kept_of_an_answer_than_is_read():
    """A program may answer with a MiB at each turn, and an audit keeps the answers of all its plays."""
    assert len(heard(Observed("\U0001f600" * 1_000_000))) == READ_CHARACTERS
