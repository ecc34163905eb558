"""Hints that state what a player has to find out."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.text.leaks import find_leaked

WORD = st.text(st.characters(categories=["L", "N"]), min_size=3, max_size=12)
SPACED = st.text(st.characters(categories=["L", "N"], max_codepoint=0xDFF), min_size=3, max_size=12)
"""Words of scripts that put spaces between words."""


@pytest.mark.parametrize(("hint", "values", "found"), [
    ("Ask for T-142 first.", ("T-142",), "T-142"),
    ("ask for t-142.", ("T-142",), "T-142"),
    ("Pay 12 at once.", ("9", "12"), "12"),
    ("It costs 1.5 in all.", ("1.5",), "1.5"),
    ("Go to Amber Lane, then home.", ("home", "Amber Lane"), "home"),
    ("Pay 1,000 at once.", ("1000",), "1000"),
    ("Pay 1000 at once.", ("1000.0",), "1000.0"),
    ("The code is 7 7 3 1.", ("7731",), "7731"),
    ("Ask for T\u2011142 or T\u200b-142 first.", ("T-142",), "T-142"),
    ("Ask for `amber_lane`.", ("Amber Lane",), "Amber Lane"),
    ("Ask for T142.", ("T-142",), "T-142"),
    ("Say \uff4f\uff50\uff45\uff4e \U0001d41d\U0001d428\U0001d428\U0001d42b.", ("open door",), "open door"),
    ("Say ze\u0301bra or z\u00e9bra.", ("zebra",), "zebra"),
    ("Say zebra.", ("\uff3a\u00c9BRA",), "\uff3a\u00c9BRA"),
    ("The code is \uff17\uff17\uff13\uff11.", ("7731",), "7731"),
    ("The code is 7731.", ("\u2466\u2466\u2462\u2460",), "\u2466\u2466\u2462\u2460"),
    ("Say it.", ("\ufe70\ufe72\ufe74",), None),
    ("First do steps 1, 2, then 3.", ("12", "123"), None),
    ("Ask for T-1421 first.", ("T-142",), None),
    ("Tickets are closed last.", ("ticket", "lose"), None),
    ("Do at most 3 things.", ("3", "-3"), None),
    ("It is ok to go on.", ("ok",), None),
    ("Send >>^, then wait.", (">>^",), ">>^"),
    ("Send `>>^`.", (">>^",), ">>^"),
    ("Send ..-.", ("..-",), "..-"),
    ("Send ^_^ or \u2191 \u2191 \u2193.", ("\u2191 \u2191 \u2193",), "\u2191 \u2191 \u2193"),
    ("Count first: >>^^ or <<^ or >>^>.", (">>^", ">^^", "<^"), None),
    ("\u8bf4\u829d\u9ebb\u5f00\u95e8\u5373\u53ef", ("\u829d\u9ebb\u5f00\u95e8",), "\u829d\u9ebb\u5f00\u95e8"),
    ("\u8bf4xyzzy\u5373\u53ef", ("xyzzy",), "xyzzy"),
    ("xyzzy\ub97c \ub9d0\ud574", ("xyzzy",), "xyzzy"),
    ("Send 4, then a 2, then 7 and at last 1.", ("4271",), "4271"),
    ("Override row 37 and shelf 58.", ("3758",), "3758"),
    ("Press q, then z, then x and v.", ("qzxv",), "qzxv"),
    ("Set a to 4 and b to 2.", ("a4b2",), "a4b2"),
    ("Send 4, then 2 and then 7, not 1250 or 1.", ("4271", "427"), "4271"),
    ("The 4 jugs hold 2, 7 and 9.", ("4271", "2719", "427"), None),
    ("Look in the hall or then at the door.", ("inorat",), None),
    ("The PIN is 07391.", ("7391",), "7391"),
    ("Turn it by 7391mm.", ("7391",), "7391"),
    ("Turn it by 73.50 mm.", ("73.5",), "73.5"),
    ("Turn it by 73.5 mm.", ("73.50",), "73.50"),
    ("Turn it by 7 mm.", ("007",), None),
    ("The PIN is 73910.", ("7391",), None),
    ("Type 417.", ("0417",), "0417"),
    ("Go north, then east, east again, and north.", ("north east east north",), "north east east north"),
    ("1. Pull red. 2. Pull blue. 3. Pull red. 4. Pull lime.", ("red blue red lime",), "red blue red lime"),
    ("North and east are open. Try east first.", ("north east east north",), None),
    ("Go east, then north.", ("east north",), None),
    ("Look it up.", (), None),
    ("Look it up.", ("", "  ", "\\b"), None),
])  # fmt: skip
def test_a_value_leaks_where_it_stands_as_a_word(hint, values, found):
    assert find_leaked(hint, values) == found


def test_a_hint_of_many_beginnings_of_a_value_takes_no_time():
    began = time.process_time()
    assert find_leaked("a " * 3_000, ("a" * 199 + "b",) * 64) is None
    assert time.process_time() - began < 1  # it takes 10 ms, and took 20 s


@given(before=st.text(max_size=20), value=WORD, after=st.text(max_size=20))
def test_any_value_is_found_between_blanks(before, value, after):
    assert find_leaked(f"{before} {value} {after}", (value,)) == value


@given(value=SPACED)
def test_no_value_is_found_inside_a_word(value):
    assert find_leaked(f"x{value}x", (value,)) is None
