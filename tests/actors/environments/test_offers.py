"""The actions of an observation, in the spellings that models use."""

import random
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from actors.environments.offers import MOST, choose, read_offer
from actors.environments.offers.readings import LONGEST
from actors.nano.families import read_offered as nano_offered
from actors.nano.games import GAMES, instantiate
from actors.text.profile import Document

LISTED = [
    # the prescribed form, as it is written
    ("Which door? Actions: red blue", ["red", "blue"]),
    ("Actions: a b c d e f clear", ["a", "b", "c", "d", "e", "f", "clear"]),
    ("Actions: weigh:1-3 weigh:2-4 wait", ["weigh:1-3", "weigh:2-4", "wait"]),
    ("Actions: and or not xor", ["and", "or", "not", "xor"]),
    ("Actions: set:x=1 set:y=2", ["set:x=1", "set:y=2"]),
    ("Actions: H He Li Be", ["H", "He", "Li", "Be"]),
    ("Actions: 5 10 -5", ["5", "10", "-5"]),
    ("Actions: [0] [1] (a) {b}", ["[0]", "[1]", "(a)", "{b}"]),
    ("Actions: + - * / ** < <= ( ) ' \"", ["+", "-", "*", "/", "**", "<", "<=", "(", ")", "'", '"']),
    ("Actions: 0,0 0,1 move(1,2)", ["0,0", "0,1", "move(1,2)"]),
    ("Actions: the a I you", ["the", "a", "I", "you"]),
    ("Actions: buy N north/south don't", ["buy", "N", "north/south", "don't"]),
    ("Actions: Mr. Ms. Dr.", ["Mr.", "Ms.", "Dr."]),
    ("Actions: wait go\u200bnorth " + "far" * 40, ["wait", "go\u200bnorth", "far" * 40]),
    (f"Actions: wait | tell {'him ' * 40}now", ["wait", f"tell {'him ' * 40}now"]),
    ("Actions: go north | ask Anna | move(1, 2) | 1..3", ["go north", "ask Anna", "move(1, 2)", "1", "2", "3"]),
    ("Actions: 8 - 3 | 8 + 3 | 8 / 2", ["8 - 3", "8 + 3", "8 / 2"]),
    ("Actions: 3 – 5 | 4 .. 6", ["3 – 5", "4 .. 6"]),
    ("Actions: score 3 - 0 | book Monday 9 - 11 | n / 2", ["score 3 - 0", "book Monday 9 - 11", "n / 2"]),
    ("Actions: | 12 / 4 |", ["12 / 4"]),
    ("Actions: | go to bed, then sleep |", ["go to bed, then sleep"]),
    ("Actions: fire 3,4 |", ["fire 3,4"]),
    ("Actions: wait", ["wait"]),
    ("Guess. Actions: 1..4", ["1", "2", "3", "4"]),
    ("Actions: -1..1 pass", ["-1", "0", "1", "pass"]),
    ("Actions: 10 to 12", ["10", "to", "12"]),
    ("A room.\n    Actions: [0] to", ["[0]", "to"]),
    ("Actions:in out", ["in", "out"]),
    ("Actions: ask Anna | wait |", ["ask Anna", "wait"]),
    ("Actions: | ask Anna | wait", ["ask Anna", "wait"]),
    # the last such list counts, also on one line
    ("Actions: old list. You go on. Actions: in out", ["in", "out"]),
    ("Actions: old\nThe door opens.\r\nActions: in out\r\nEnd with \\boxed{action}.\n", ["in", "out"]),
]
UNCERTAIN = [
    # labels
    ("Actions: go north, go south.", ["go north", "go south"]),
    ("**Valid Actions:**\n- `north` - go north\n- `south`: go south\n* **wait** (nothing)", ["north", "south", "wait"]),
    ("Your options are: left, right, or stay put.", ["left", "right", "stay put"]),
    ("Possible actions include look, go and take.", ["look", "go", "take"]),
    ("Turn 2 of 9. Moves made: 3. Legal moves: a1 a2 b3", ["a1", "a2", "b3"]),
    ("Available actions (choose one):\n  look\n  wait", ["look", "wait"]),
    ("## Available Actions\n- open door\n- close door\n\nGood luck", ["open door", "close door"]),
    ("Type one of the following commands: scan, dig, leave", ["scan", "dig", "leave"]),
    ("Questions left: 3. You can ask about: owner, title, keys", ["owner", "title", "keys"]),
    ("Walk commands: n, s\nItem commands: get, drop", ["get", "drop"]),
    ("You may: open, close", ["open", "close"]),
    ("Options → open, close", ["open", "close"]),
    ("Valid inputs: 0 (stay), 1 (left), 2 (right)", ["0", "1", "2"]),
    # separators
    ("Actions: 北、南、东", ["北", "南", "东"]),
    ("Legal moves: e2e4; d2d4; g1f3", ["e2e4", "d2d4", "g1f3"]),
    ("Choose one of: rock / paper / scissors", ["rock", "paper", "scissors"]),
    ("Actions: north/south/east/west", ["north", "south", "east", "west"]),
    ("Actions: climb | jump | wait.", ["climb", "jump", "wait"]),
    ("Actions: climb jump wait.", ["climb", "jump", "wait"]),
    ("actions = ['a', 'b', \"don't\"]", ["a", "b", "don't"]),
    ("Available actions: {'hit', 'stand'}", ["hit", "stand"]),
    ("Actions: (hit, stand)", ["hit", "stand"]),
    # marks
    (r"Actions: \boxed{red}, \boxed{blue}", ["red", "blue"]),
    ("Actions: \boxed{red} or \boxed{blue}", ["red", "blue"]),
    ("Actions: 'a' `b`", ["a", "b"]),
    ("Actions: `[0]` `[1]`", ["[0]", "[1]"]),
    ("Available actions: “ask Anna”, “ask Bert”, \u2018decide\u2019", ["ask Anna", "ask Bert", "decide"]),
    ("Actions: **run**, **hide**", ["run", "hide"]),
    (r"Actions: hit, stand. Reply with \boxed{action}.", ["hit", "stand"]),
    ("Actions: look take wait. Choose one!", ["look", "take", "wait"]),
    (r"Actions: look, decide:anna (end with \boxed{action})", ["look", "decide:anna"]),
    ("Actions (one per turn): LOOK, TAKE ITEM, GO NORTH", ["LOOK", "TAKE ITEM", "GO NORTH"]),
    # labels and texts of lines
    ("Options:\n1. go north\n2) go south", ["1", "2"]),
    ("Options:\n1. go north\n2) go south", ["go north", "go south"]),
    ("Options: A) red B) blue", ["A", "B"]),
    ("Options:\n(a) the red door\n(b) the blue door", ["the red door", "the blue door"]),
    ("Choose an action: [0] stay [1] left", ["stay", "left"]),
    ("Options: [N]orth, [S]outh", ["N", "S"]),
    # ranges
    ("Actions: 10-12", ["10", "11", "12"]),
    ("Actions: 10-12", ["10-12"]),
    ("Actions: fire:3,4", ["fire:3,4"]),
    ("Actions: (2,3)", ["(2,3)"]),
    ("Actions: 08..10", ["8", "9", "10"]),
    ("Actions: any number between 3 and 5, or pass", ["3", "4", "5", "pass"]),
    ("Actions: 7..9, stop", ["7", "8", "9", "stop"]),
    ("Actions: 1 .. 3", ["1", "2", "3"]),
    ("Actions: 1…3", ["1", "2", "3"]),
    ("Actions: 1–3", ["1", "2", "3"]),
    ("Actions: guess 1..3", ["guess 1", "guess 2", "guess 3"]),
    ("Actions: guess 1..3", ["1", "2", "3", "guess"]),
    ("Actions: guess 1..2 | give up", ["guess 1", "guess 2", "give up"]),
    ("Actions: guess:1..3", ["guess:1", "guess:2", "guess:3"]),
    ("Actions: guess(1..3), wait", ["guess(1)", "guess(2)", "guess(3)", "wait"]),
    ("Actions: a..c", ["a", "b", "c"]),
    ("Actions: A1..B2", ["A1", "A2", "B1", "B2"]),
    ("Actions: 0..0.2", [f"{at / 100:.2f}" for at in range(21)]),
    # bars and slashes that stand close, or between words
    ("Actions: go in|go out|wait", ["go in", "go out", "wait"]),
    ("Actions: go in |go out | wait", ["go in", "go out", "wait"]),
    ("Actions: go in| go out| wait", ["go in", "go out", "wait"]),
    ("Actions: go in || go out", ["go in", "go out"]),
    ("Actions: go in / go out / wait", ["go in", "go out", "wait"]),
    # sentences
    ("Say 'open' or \"shut it\".", ["open", "shut it"]),
    (r"Reply with \boxed{yes} or \boxed{no}.", ["yes", "no"]),
    ("Choose red, blue or green.", ["red", "blue", "green"]),
    ("Moves: 3/20\nYou can look, take the key, or go north.", ["look", "take the key", "go north"]),
    ("Do you hit or stand? [h/s]", ["h", "s"]),
    ("Last action: look\nActions left: 5\nWhat do you do? (look/take/go)", ["look", "take", "go"]),
    ("What now?\n> look\n> take lamp", ["look", "take lamp"]),
    ("A number from 3 to 5?", ["3", "4", "5"]),
    ("Pick a number between 1 and 3.", ["1", "2", "3"]),
    ("Enter an integer in [1, 3].", ["1", "2", "3"]),
]
FILLED = [
    ("Actions: press <red|blue>, wait", {"press red", "press blue", "wait"}),
    ("Actions:\nlook: see\npull <lever>: pull a lever (1-3)", {"look", "pull 1", "pull 2", "pull 3"}),
    ("Commands: buy N, wait", {"buy 1", "buy 9", "wait"}),
    ("Action format: move:<row>:<col> with 0-1", {"move:0:0", "move:1:0", "move:0:1", "move:1:1"}),
    ("You may ask <name>. Suspects: Anna, Bert.", {"ask Anna", "ask Bert"}),
    ("Actions: put <A> | quit\nA lamp is here.", {"put lamp", "quit"}),
    ("Actions: take <item>, go\nA lamp and a rusty key are here.", {"take lamp", "take key", "go"}),
    ("Commands: guess(word), quit()\nThe words: apple, pear", {"guess(apple)", "guess(pear)", "quit()"}),
]
"""Lists with placeholders, and some actions that random play sends."""
UNREADABLE = [
    "Well?",
    "Actions left: 3. Invalid action: jump. Last action: look",
    "Moves: 3/20",
    "Your moves are limited. The guards say: halt.",
    "The car stands in the yard. Mr Bold says he paid for it; Ms Reed holds the title. Whose is it?",
    r"Actions: \boxed{action}",
    r"Open one a turn; end your reply with \boxed{valve}.",
    "A grey car stands in the yard, and two people say that it is theirs.",
    "Actions: 9..1",
    "Actions: 1.." + "9" * 5_000,
    "",
]
SCRAPS = [
    "Actions: ", "actions ", "available ", "You can ", "choose ", "\\boxed{", "{", "(", "[", "<", "'", '"', "`", "**",
    " or ", " and ", "/ ", "1..2 ", "0-999 ", "go:1..999 ", "a..z ", "0..0.5 ", " | ", "a, ",
    "\n- a", "\n", "\n1. ", "in [1,", "between 1 and ", "1 <= a ", "“",
    "__", " N ", "<a> ", "f(a, ", "move:<a>:<b> ", "A) ", "?\n- ", "valid actions (", "\x1b[2J", "\u2028", "\ud800",
]  # fmt: skip


@pytest.mark.parametrize(("observation", "actions"), LISTED)
def test_a_list_in_the_prescribed_form_is_read_as_it_is_written(observation, actions):
    offer = read_offer(observation)
    assert (list(offer.actions), offer.kind) == (actions, "listed")


def plain(action: str) -> bool:
    """Return whether an action may stand in a list of the prescribed form."""
    whole = len(action) == 1 or action.count("(") == action.count(")")
    marks = re.fullmatch(r"[\"'`“\u2018«*].+|.*[,;.]|.*<.*|.*\.\..*|.*boxed\{.*", action) if len(action) > 1 else None
    return "|" not in action and action != "/" and whole and not marks


WORDS = st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=LONGEST // 2).filter(plain)


@given(
    st.lists(WORDS, min_size=2, max_size=30, unique=True), st.sampled_from(["", "A door.\n", "Turn 3: it is shut. "])
)
def test_any_list_in_the_prescribed_form_is_read_as_it_is_written(words, before):
    for separator in (" ", " | "):
        offer = read_offer(f"{before}Actions: {separator.join(words)}")
        assert (list(offer.actions), offer.kind) == (words, "listed")


@given(st.lists(WORDS.filter(lambda word: len(word) < LONGEST // 2), min_size=4, max_size=30, unique=True))
def test_actions_with_spaces_are_read_between_bars(words):
    phrases = [" ".join(pair) for pair in zip(words[::2], words[1::2], strict=False)]
    assume(all(map(plain, phrases)))
    assert list(read_offer("Actions: " + " | ".join(phrases)).actions) == phrases


@pytest.mark.parametrize(("observation", "actions"), UNCERTAIN)
def test_a_list_in_another_form_is_uncertain_and_one_reading_has_what_is_meant(observation, actions):
    offer = read_offer(observation)
    assert offer.kind == "uncertain"
    assert actions in [list(reading) for reading in offer.readings]
    assert len(offer.readings) <= 5


@pytest.mark.parametrize(("observation", "actions"), FILLED)
def test_placeholders_are_filled_with_words_and_numbers_of_the_observation(observation, actions):
    assert read_offer(observation).kind == "uncertain"
    assert actions <= {choose(observation, random.Random(seed)) for seed in range(400)}


@pytest.mark.parametrize("observation", UNREADABLE, ids=range(len(UNREADABLE)))
def test_where_nothing_is_offered_words_and_numbers_are_guessed(observation):
    offer = read_offer(observation)
    assert offer.kind == "guessed"
    assert {"yes", "no", "0", "1", "2"} <= set(offer.actions)


def test_guesses_are_of_the_words_of_the_observation_and_of_what_is_known():
    observation = "The car stands in the yard. Whose is it?"
    drawn = {choose(observation, random.Random(seed), known=("ask the clerk",)) for seed in range(300)}
    assert {"car", "yard", "ask the clerk"} <= drawn


def test_missed_actions_are_drawn_as_often_as_exact_lists_lacked_them():
    def drawn(known, missed):
        actions = [choose("Actions: red blue", random.Random(seed), known, missed) for seed in range(1_000)]
        assert set(actions) <= {"red", "blue", *missed}
        return sum(action in missed for action in actions) / 1_000

    assert drawn(("red", "later"), ()) == 0.0
    assert 0.4 < drawn(("win", "now"), ("win", "now")) < 0.6
    assert 0.2 < drawn(("red", "blue", "blue", "win"), ("win",)) < 0.3


def test_a_bar_at_an_edge_of_a_list_marks_actions_with_spaces():
    for listed in ("| open the box |", "open the box |", "| open the box"):
        assert list(read_offer(f"Actions: {listed}").actions) == ["open the box"]


def draw_all(observation, known):
    """Return every action that is drawn, without the known actions that the list lacks."""
    return {choose(observation, random.Random(seed), known) for seed in range(400)}


def test_words_of_a_list_that_are_a_known_action_together_are_one_action():
    """Otherwise a program could list a step in words that random play sends one by one, and hide luck behind it."""
    known = ("red", "open the box")
    assert draw_all("Actions: open the box", known) == {"open the box"}
    assert draw_all("Actions: wait open the box 1..3", known) == {"wait", "open the box", "1", "2", "3"}
    assert draw_all("Actions: open the box look", ("look", *known)) == {"open the box", "look"}
    assert draw_all("Actions: open the box open the box", known) == {"open the box"}
    assert draw_all("Actions: the box open", known) == {"the", "box", "open"}
    assert draw_all("Actions: open the boxes", known) == {"open", "the", "boxes"}
    assert draw_all("Actions: open the box | wait", ("open the", "wait")) == {"open the box", "wait"}


def test_all_words_of_a_list_are_one_action_if_a_missed_action_has_as_many():
    drawn = {
        choose(
            "Actions: put the blue jar away",
            random.Random(seed),
            ["look", "put the red stone away"],
            ["put the red stone away"],
        )
        for seed in range(99)
    }
    assert drawn == {"put", "the", "blue", "jar", "away", "put the blue jar away"}
    drawn = {
        choose("Actions: jump wait", random.Random(seed), ["look", "go in now"], ["go in now"]) for seed in range(99)
    }
    assert drawn == {"jump", "wait", "go in now"}


def test_if_single_words_of_a_known_action_are_known_too_both_readings_are_drawn_from():
    """Otherwise a solution that sends `red blue` in vain would hide `red` and `blue`."""
    assert draw_all("Actions: red blue", ("red blue", "red")) == {"red blue", "red", "blue"}


def test_of_an_uncertain_list_the_readings_that_have_known_actions_are_drawn_from():
    observation = "Options:\n1. go north\n2) go south"
    drawn = {choose(observation, random.Random(seed), known=("go south", "jump")) for seed in range(100)}
    assert drawn == {"go north", "go south", "jump"}


def test_numbers_of_a_huge_range_are_spread_over_it():
    numbers = [int(number) for number in read_offer("Actions: 1..99999999999999").actions]
    assert len(numbers) == MOST
    assert numbers[500] > 10**12


RANGES = ["Actions: 1..5000", "Actions: 1..5000 pass", "Guess a number from 1 to 5000.", "Choose one: guess 1..5000"]


@pytest.mark.parametrize("observation", RANGES)
def test_no_part_of_a_long_range_is_left_out_of_random_play(observation):
    """A program could work out a fixed sample, and give every number outside it the win."""
    rng, numbers, draws = random.Random(7), set[int](), iter(range(3_000))
    while len(numbers) <= 1_050:
        next(draws)
        numbers |= {int(number) for number in re.findall(r"[0-9]+", choose(observation, rng))}
    assert any(number % 2 for number in numbers)


def test_random_play_draws_other_decimals_than_even_steps():
    drawn = {choose("Choose a number from 0.05 to 2.95", random.Random(seed)) for seed in range(1_000)}
    assert len(drawn) > 100


def test_the_same_seed_draws_the_same_numbers():
    drawn = [[choose(RANGES[1], rng) for _ in range(20)] for rng in (random.Random(3), random.Random(3))]
    assert drawn[0] == drawn[1]


def test_all_actions_of_a_long_list_are_drawn():
    """Neither repetitions nor a multitude of junk may hide the last ones."""
    repeated = "Actions: " + "wait " * 3_000 + "heads tails"
    assert read_offer(repeated).actions == ("wait", "heads", "tails")
    assert {choose(repeated, random.Random(seed)) for seed in range(40)} == {"wait", "heads", "tails"}
    many = read_offer("Actions: " + " ".join(f"w{index}" for index in range(2_500)) + " heads tails")
    assert many.kind == "listed"
    assert many.has("heads")
    assert many.has("w0")
    assert many.has("w2499")


@pytest.mark.parametrize(
    "observation",
    [
        "Valid actions: " + "wait, " * 300 + "heads, tails",
        "Valid actions: " + ", ".join(f"w{index}" for index in range(300)) + ", heads, tails",
        "Choose one of:\n" + "".join(f"- w{index}\n" for index in range(300)) + "- heads\n- tails",
        "Choose one: " + "".join(f"w {low}..{low + 99}, " for low in range(0, 900, 100)) + "heads 1..9, tails 1..9",
        "A story of " + " ".join(f"w{index}" for index in range(120)) + " heads tails.",
    ],
    ids=["repeated", "many", "lines", "ranges", "guessed"],
)
def test_no_place_in_a_long_text_hides_an_action_from_random_play(observation):
    missing, seeds = {"heads", "tails"}, iter(range(1_500))
    while missing:
        missing.discard(choose(observation, random.Random(next(seeds))).split()[0])


def test_a_list_too_long_to_be_read_is_not_taken_for_one():
    """Else its first actions would be all that random play tries."""
    assert read_offer("Actions: wait " + "word " * 4_000 + "heads").kind == "guessed"


def test_a_list_counts_as_the_last_one_wherever_it_begins():
    """One that is longer than the ends that are read must not give way to an earlier, shorter one."""
    words = [f"word-{index}" for index in range(1_500)]
    offer = read_offer("Actions: wait rest\nActions: heads tails " + " ".join(words))
    assert "wait" not in offer.actions
    assert offer.has("heads")
    assert offer.has("word-1499")


def test_ranges_leave_room_for_words_and_other_ranges():
    offer = read_offer("Actions: 1..99999 pass -99999..-1 quit")
    assert {"pass", "quit"} < set(offer.actions)
    assert 0 < sum(action.startswith("-") for action in offer.actions) < len(offer.actions) / 2 < MOST


@pytest.mark.parametrize("action", ["846", "0", "9999", "pass"])
def test_a_list_has_every_number_of_its_range(action):
    offer = read_offer("Actions: 0..9999 pass")
    assert offer.has(action)
    assert not any(map(offer.has, ["10000", "-1", "0846", "+1", "8.0", "\uff18", ""]))


def test_of_a_long_observation_the_ends_are_read():
    assert read_offer("Actions: in out\n" + "wall " * 50_000).actions == ("in", "out")
    assert read_offer("wall " * 50_000 + "\nActions: in out").actions == ("in", "out")


def test_every_nano_program_is_read_as_it_lists_its_actions():
    for environment in GAMES.unseen(3, [Document("m1", "mathematics", "Primes", "")], 60):
        observation, _ = instantiate(environment.source).reset(7)
        offer = read_offer(observation)
        assert (list(offer.actions), offer.kind) == (nano_offered(observation), "listed")


def check(observation: str) -> None:
    offer = read_offer(observation)
    assert 0 < len(offer.actions) <= MOST
    for action in offer.actions:
        assert action == action.strip() != ""
        assert offer.kind == "listed" or (len(action) <= LONGEST and action.isprintable())
    assert choose(observation, random.Random(1))


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


@given(st.lists(st.from_regex(r"\A[a-z]{3,8}(_[a-z]{2,5})?\Z"), min_size=2, max_size=6, unique=True), st.sampled_from(
    ["{}", "'{}'", "`{}`", '"{}"', "\\boxed{{{}}}", "**{}**", "“{}”"]
), st.sampled_from([", ", "; ", " | ", " / "]))  # fmt: skip
def test_marked_actions_between_separators_are_one_of_the_readings(names, mark, separator):
    offer = read_offer("Available actions: " + separator.join(mark.format(name) for name in names))
    assert names in [list(reading) for reading in offer.readings]
