"""The actions of an observation, in the spellings that models use."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.environments.offers import LONGEST, MOST, choose, offered, placeholders
from actors.environments.offers.ranges import RANGE, numbers
from actors.nano.families import offered as nano_offered
from actors.nano.games import GAMES, instantiate
from actors.text.actions import boxed
from actors.text.profile import Document

DIGITS = list("0123456789")
LISTED = [
    # labels
    ("Which door? Actions: red blue", ["red", "blue"]),
    ("Actions: a b c d e f g h", ["a", "b", "c", "d", "e", "f", "g", "h"]),
    ("Actions: old\nnow Actions: go north, go south.", ["go north", "go south"]),
    ("**Valid Actions:**\n- `north` - go north\n- `south`: go south\n* **wait** (nothing)", ["north", "south", "wait"]),
    ("Your options are: left, right, or stay put.", ["left", "right", "stay put"]),
    ("Possible actions include look, go and take.", ["look", "go", "take"]),
    ("Turn 2 of 9. Moves made: 3. Legal moves: a1 a2 b3", ["a1", "a2", "b3"]),
    ("Available actions (choose one):\n  look\n  wait", ["look", "wait"]),
    ("## Available Actions\n- open door\n- close door\n\nGood luck", ["open door", "close door"]),
    ("Type one of the following commands: scan, dig, leave", ["scan", "dig", "leave"]),
    ("Questions left: 3. You can ask about: owner, title, keys", ["owner", "title", "keys"]),
    ("Walk commands: n, s\nItem commands: get, drop", ["n", "s", "get", "drop"]),
    ("You may: open, close", ["open", "close"]),
    ("Options → open, close", ["open", "close"]),
    ("Valid inputs: 0 (stay), 1 (left), 2 (right)", ["0", "1", "2"]),
    # separators
    ("Legal moves: e2e4; d2d4; g1f3", ["e2e4", "d2d4", "g1f3"]),
    ("Choose one of: rock / paper / scissors", ["rock", "paper", "scissors"]),
    ("Actions: north/south/east/west", ["north", "south", "east", "west"]),
    ("Actions: climb | jump | wait.", ["climb", "jump", "wait"]),
    ("Actions: weigh:2:5 look turn_left", ["weigh:2:5", "look", "turn_left"]),
    ("actions = ['a', 'b', \"don't\"]", ["a", "b", "don't"]),
    ("Available actions: {'hit', 'stand'}", ["hit", "stand"]),
    ("Actions: (hit, stand)", ["hit", "stand"]),
    # marks
    (r"Actions: \boxed{red}, \boxed{blue}", ["red", "blue"]),
    ("Actions: \boxed{red} or \boxed{blue}", ["red", "blue"]),
    ("Actions: 'a' `b`", ["a", "b"]),
    ("Available actions: “ask Anna”, “ask Bert”, \u2018decide\u2019", ["ask Anna", "ask Bert", "decide"]),
    ("Actions: **run**, **hide**", ["run", "hide"]),
    (r"Actions: hit, stand. Reply with \boxed{action}.", ["hit", "stand"]),
    (r"Actions: look, decide:anna (end with \boxed{action})", ["look", "decide:anna"]),
    ("Actions (one per turn): LOOK, TAKE ITEM, GO NORTH", ["LOOK", "TAKE ITEM", "GO NORTH"]),
    # labels and texts of lines
    ("Options:\n1. go north\n2) go south", ["1", "go north", "2", "go south"]),
    ("Options: A) red B) blue", ["A", "red", "B", "blue"]),
    ("Options:\n(a) the red door\n(b) the blue door", ["a", "the red door", "b", "the blue door"]),
    ("Actions:\n1: stay\n2: leave", ["1", "stay", "2", "leave"]),
    ("Choose an action: [0] stay [1] left", ["0", "stay", "1", "left"]),
    ("Options: [N]orth, [S]outh", ["N", "North", "S", "South"]),
    # ranges
    ("Guess. Actions: 1..4", ["1", "2", "3", "4"]),
    ("Guess. Actions: -1..1.", ["-1", "0", "1"]),
    ("Actions: 10-12", ["10", "11", "12"]),
    ("Actions: 10 to 12", ["10", "11", "12"]),
    ("Actions: any number between 3 and 5, or pass", ["3", "4", "5", "pass"]),
    ("Actions: 7..9, stop", ["7", "8", "9", "stop"]),
    # placeholders
    ("Actions: press <red|blue>, wait", ["press red", "press blue", "wait"]),
    ("Actions:\nlook: see\npull <lever>: pull a lever (1-3)", ["look", "pull 1", "pull 2", "pull 3"]),
    ("Commands: buy N, wait", ["buy N", *[f"buy {digit}" for digit in DIGITS], "wait"]),
    ("Commands: 'HALT', 'JUMP n'", ["HALT", "JUMP n", *[f"JUMP {digit}" for digit in DIGITS]]),
    ("Actions: 'inc', or 'submit:<value>' where value is an integer in [0, 2].",
        ["inc", "submit:0", "submit:1", "submit:2"]),
    ("Action format: move:<row>:<col> with 0-1", ["move:0:0", "move:1:0", "move:0:1", "move:1:1"]),
]  # fmt: skip
TOLD = [
    (r"Say 'open' or \"shut it\".".replace("\\", ""), ["open", "shut it"]),
    (r"Reply with \boxed{yes} or \boxed{no}.", ["yes", "no"]),
    ("Choose red, blue or green.", ["red", "blue", "green"]),
    ("Moves: 3/20\nYou can look, take the key, or go north.", ["look", "take the key", "go north"]),
    ("Do you hit or stand? [h/s]", ["h", "s"]),
    ("Last action: look\nActions left: 5\nWhat do you do? (look/take/go)", ["look", "take", "go"]),
    ("What now?\n> look\n> take lamp", ["look", "take lamp"]),
    ("A number from 3 to 5?", ["3", "4", "5"]),
    ("Pick a number between 1 and 3.", ["1", "2", "3"]),
    ("Enter an integer in [1, 3].", ["1", "2", "3"]),
    ("What will you bid? (1 to 3)", ["1", "2", "3"]),
    ("You may ask <name>. Suspects: Anna, Bert.", ["ask ask", "ask Suspects", "ask Anna", "ask Bert"]),
]
UNREADABLE = [
    "Well?",
    "Actions left: 3. Invalid action: jump. Last action: look",
    "Moves: 3/20",
    "Your moves are limited. The guards say: halt.",
    "The car stands in the yard. Mr Bold says he paid for it; Ms Reed holds the title. Whose is it?",
    r"Actions: \boxed{action}",
    "Actions: 9..1",
    "Actions: 1.." + "9" * 5_000,
    "",
]
SCRAPS = [
    "Actions: ", "actions ", "available ", "You can ", "choose ", "\\boxed{", "{", "(", "[", "<", "'", '"', "`", "**",
    " or ", " and ", "/ ", "1..2 ", "0-999 ", "a, ", "\n- a", "\n", "\n1. ", "in [1,", "between 1 and ", "1 <= a ", "“",
    "__", " N ", "<a> ", "f(a, ", "move:<a>:<b> ", "A) ", "?\n- ", "valid actions (", "\x1b[2J", "\u2028", "\ud800",
]  # fmt: skip


@pytest.mark.parametrize(("observation", "actions"), LISTED)
def test_a_list_is_read_however_it_is_spelled(observation, actions):
    offer = offered(observation)
    assert (list(offer.actions), offer.kind) == (actions, "listed")


@pytest.mark.parametrize(("observation", "actions"), TOLD)
def test_prose_that_asks_for_one_of_some_actions_offers_them(observation, actions):
    offer = offered(observation)
    assert (list(offer.actions), offer.kind) == (actions, "told")


@pytest.mark.parametrize("observation", UNREADABLE, ids=range(len(UNREADABLE)))
def test_where_nothing_is_offered_words_and_numbers_are_guessed(observation):
    offer = offered(observation)
    assert not offer.readable
    assert {"yes", "no", "0", "1", "2"} <= set(offer.actions)


def test_guesses_are_of_the_words_of_the_observation_and_of_what_is_known():
    observation = "The car stands in the yard. Whose is it?"
    drawn = {choose(observation, random.Random(seed), known=("ask the clerk",)) for seed in range(300)}
    assert {"car", "yard", "ask the clerk"} <= drawn


def test_known_actions_are_not_drawn_where_actions_are_listed():
    assert {choose("Actions: red blue", random.Random(seed), known=("win",)) for seed in range(50)} == {"red", "blue"}


def test_placeholders_are_filled_with_words_of_the_observation():
    actions = offered("Actions: take <item>, go <direction>\nA lamp and a rusty key are here.").actions
    assert {"take lamp", "take key", "go north", "go left"} <= set(actions)
    assert "look(7)" not in actions


def test_a_call_has_placeholders():
    actions = set(offered("Commands: guess(word), quit()\nThe words: apple, pear").actions)
    assert {"guess(apple)", "guess(pear)", "quit()"} <= actions


def test_an_example_stands_for_others_of_its_form():
    assert "3,5" in offered("Enter your move as row,col (e.g. 1,2).").actions


def test_numbers_of_a_huge_range_are_spread_over_it():
    numbers = [int(number) for number in offered("Actions: 1..99999999999999").actions]
    assert len(numbers) == MOST
    assert numbers[500] > 10**12


def test_of_a_long_observation_the_ends_are_read():
    assert offered("Actions: in out\n" + "wall " * 50_000).actions == ("in", "out")
    assert offered("wall " * 50_000 + "\nActions: in out").actions == ("in", "out")


def test_every_nano_program_is_read_as_it_lists_its_actions():
    for environment in GAMES.unseen(3, [Document("m1", "mathematics", "Primes", "")], 60):
        observation, _ = instantiate(environment.source).reset(7)
        offer = offered(observation)
        assert (list(offer.actions), offer.kind) == (nano_offered(observation), "listed")


def check(observation: str) -> None:
    offer = offered(observation)
    assert 0 < len(offer.actions) <= MOST
    for action in offer.actions:
        assert 0 < len(action) <= LONGEST
        assert action == action.strip()
        assert action.isprintable()
    assert choose(observation, random.Random(1)) in (*offer.actions, *offer.guesses)


@given(st.text())
def test_any_text_offers_something_short_of_one_line(observation):
    check(observation)


@given(st.lists(st.sampled_from(SCRAPS), max_size=60).map("".join))
def test_any_mixture_of_spellings_offers_something_short_of_one_line(observation):
    check(observation)


@given(st.lists(st.sampled_from(SCRAPS), min_size=1, max_size=3).map("".join))
@settings(max_examples=40, deadline=None)
def test_a_text_of_repetitions_up_to_the_limit_is_read_in_bounds(scrap):
    """A search that goes back over what it read would not come to an end here."""
    check(scrap * (262_144 // len(scrap)))


def test_what_explains_many_actions_is_not_searched_to_its_end_for_each(monkeypatch):
    observation, searched = "Actions:\n" + "a) x `" * 600, []

    class Counted:
        @staticmethod
        def search(text):
            searched.append(len(text))
            return RANGE.search(text)

    monkeypatch.setattr(placeholders, "RANGE", Counted)
    assert offered(observation).readable
    assert sum(searched) < 50 * len(observation)


def test_the_explanation_of_actions_names_a_range_once(monkeypatch):
    drawn = []
    monkeypatch.setattr(placeholders, "numbers", lambda match, most: drawn.append(most) or numbers(match, most))
    assert len(offered("Actions: <n> <n> <n> <n> (1..10000000000), wait").actions) == placeholders.FILLINGS + 1
    assert drawn == [placeholders.FILLINGS]


@given(st.lists(st.from_regex(r"\A[a-z]{3,8}(_[a-z]{2,5})?\Z"), min_size=2, max_size=6, unique=True), st.sampled_from(
    ["{}", "'{}'", "`{}`", '"{}"', "\\boxed{{{}}}", "**{}**", "“{}”"]
), st.sampled_from([", ", "; ", " | ", " / "]))  # fmt: skip
def test_an_action_is_sent_as_the_inside_of_a_players_box(names, mark, separator):
    offer = offered("Available actions: " + separator.join(mark.format(name) for name in names))
    assert list(offer.actions) == names
    assert all(boxed(f"\\boxed{{{action}}}") == action for action in offer.actions)
