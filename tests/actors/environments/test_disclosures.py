"""A play loses its moves after something that only certain words make the program tell."""

import json
import random

import pytest

from actors.environments.disclosures import find_rest
from actors.environments.disclosures.controls import CONTROLS, make_controls
from actors.environments.disclosures.sentences import MOST_SENTENCES, split_sentences
from actors.environments.disclosures.substitution import Substitution
from actors.environments.gifts import PlayerView, contain
from actors.text.conversation import Move
from spade.protocol import ToolCall


async def find_rest_beside(program, moves, words, *unaided, instance=7):
    """Find the rest of moves on this instance, beside plays without the hint on another one.

    `program` maps an instance and the moves so far to an observation.
    """
    others = iter(range(1, 5))

    async def play(moves, instance=instance):
        return PlayerView(tuple(moves), [program(instance, tuple(moves[:turn])) for turn in range(len(moves) + 1)])

    async def elsewhere(moves):
        return await play(moves, next(others))

    beside = [await play(each, 3) for each in unaided]
    return await find_rest(await play(moves), words, play, elsewhere, beside, random.Random(5))


async def drop(program, moves, words, instance=7):
    """Drop the words from moves on this instance."""
    return list((await find_rest_beside(program, moves, words, instance=instance)).without)


LISTED = "Actions: pull:1 pull:2 pull:4 pull:7 look say:WHAT"


@pytest.mark.parametrize(
    "told",
    [
        "Lever {} hums.",
        "Turn 3: Lever {} hums.",
        "You look around, and hear that lever {} hums.",
        "Only lever {} of 9 does not hum.",
        "It is lever {}, not 1, 2 or 4!",
        '{{"hums": {}}}',
        "Door {} is open: 0 of 2.",
        "Chatter. " * 200 + "Lever {} hums.",
    ],
)
async def test_nothing_is_left_after_a_sentence_that_only_a_word_brings(told):
    def levers(right, moves):
        return f"{told.format(right) if moves and moves[-1] == 'say:xyzzy' else 'Nothing.'} {LISTED}"

    assert await drop(levers, ("look", "say:xyzzy", "pull:7"), ["xyzzy"]) == ["look"]


@pytest.mark.parametrize(("blank", "left"), [("0", ["look"]), ("{turn}", ["look", "pull:7"])])
async def test_a_number_that_is_always_the_same_without_a_word_is_a_blank(blank, left):
    def levers(right, moves):
        hums = right if moves and moves[-1] == "say:xyzzy" else blank.format(turn=len(moves))
        return f"Humming: {hums}\n{LISTED}"

    assert await drop(levers, ("look", "say:xyzzy", "pull:7"), ["xyzzy"]) == left


ROWS = [f"Lever {row} is rusty." for row in (1, 2, 4, 7)]


@pytest.mark.parametrize(
    "choose",
    [
        lambda right: [f"Lever {right} is rusty."],
        lambda right: [row for row in ROWS if str(right) not in row],
        lambda right: sorted(ROWS, key=lambda row: str(right) not in row),
        lambda right: [*ROWS, f"Lever {right} is rusty."],
    ],
    ids=["one", "the others", "first", "twice"],
)
@pytest.mark.parametrize("at", ["say:xyzzy", "list"])
async def test_a_word_that_chooses_among_lines_that_were_shown_before_tells_something(choose, at):
    """A program may choose, order or repeat lines. Without the word it shows all of them."""

    def levers(right, moves):
        chosen = choose(right) if "say:xyzzy" in moves and moves[-1] == at else ROWS
        return "\n".join(["A hall.", *chosen, LISTED])

    moves = ("look", "say:xyzzy", "list", "pull:7")
    assert await drop(levers, moves, ["xyzzy"]) == (["look"] if at == "say:xyzzy" else ["look", "list"])
    assert await drop(levers, moves, ["ghost"]) == list(moves)


async def test_a_sentence_counts_at_each_turn():
    """At first the program shows every sentence, then only one."""
    names = ["first", "second", "third", "fourth", "fifth"]

    def levers(right, moves):
        if "say:xyzzy" not in moves:
            return LISTED
        shown = names if moves[-1] == "say:xyzzy" else [names[right % 5]]
        return "\n".join(f"It is the {name} of them." for name in shown)

    assert await drop(levers, ("say:xyzzy", "look", "pull:7"), ["xyzzy"]) == ["look"]


async def test_a_word_that_shows_lines_again_tells_nothing():
    """The same lines are shown again without the word, or on any instance."""

    def hall(right, moves):
        rows = ROWS if right % 2 else ROWS[::-1]
        again = not moves or moves[-1] in ("look", "say:xyzzy")
        return "\n".join([*(rows if again else ["It is dark."]), LISTED])

    assert await drop(hall, ("look", "say:xyzzy", "pull:7"), ["xyzzy"]) == ["look", "pull:7"]

    def cellar(_, moves):
        return "\n".join([*(ROWS[:2] if moves and moves[-1] == "say:xyzzy" else ROWS), LISTED])

    assert await drop(cellar, ("look", "say:xyzzy", "pull:7"), ["xyzzy"]) == ["look", "pull:7"]


async def test_a_word_may_tell_something_later():
    def levers(right, moves):
        hums = "say:xyzzy" in moves and moves[-1] == "look"
        return f"{f'Lever {right} hums.' if hums else 'Nothing hums.'} {LISTED}"

    assert await drop(levers, ("say:xyzzy", "look", "pull:7"), ["xyzzy"]) == ["look"]


async def test_a_word_that_works_like_any_other_tells_nothing():
    def number(right, moves):
        if not moves or not moves[-1].isdecimal():
            return "A number from 1 to 999. Say one."
        return f"{moves[-1]} is too {'high' if int(moves[-1]) > right else 'low'}. Turn {len(moves)}."

    moves = ("500", "250", "375", "300")
    assert await drop(number, moves, ["500"], 300) == ["250", "375", "300"]
    # No other guess is left that could show what a guess brings. Random numbers show it.
    assert await drop(number, moves, ["500", "250", "375"], 300) == ["300"]


async def test_a_word_that_tells_the_same_everywhere_tells_nothing_unless_it_names_a_later_move():
    def hall(_, moves):
        return "You wait. The hall is cold." if moves and moves[-1] == "wait" else f"A hall. {LISTED}"

    assert await drop(hall, ("wait", "pull:7"), ["wait"]) == ["pull:7"]

    def cellar(_, moves):
        return "A note says herring." if moves and moves[-1] == "dig" else f"A cellar. {LISTED}"

    assert await drop(cellar, ("look", "dig", "say:herring"), ["dig"]) == ["look"]

    def keypad(_, moves):
        return "A ghost counts: 7, 2." if moves and moves[-1] == "say:xyzzy" else f"A keypad. {LISTED}"

    assert await drop(keypad, ("say:xyzzy", "pull:7", "pull:2"), ["xyzzy"]) == []


async def test_an_answer_that_players_without_the_hint_get_tells_nothing():
    def cities(right, moves):
        known = bool(moves) and moves[-1] in ("nairobi", "cairo", "oslo")
        return f"Go {'north' if right % 2 else 'south'}. It is {right} km." if known else "Guess a city."

    async def play(moves, instance=7):
        return PlayerView(tuple(moves), [cities(instance, moves[:turn]) for turn in range(len(moves) + 1)])

    own = await play(("nairobi", "leave"))
    for unaided, left in (((), []), ((await play(("cairo", "look"), 3),), ["leave"])):
        rest = await find_rest(own, ["nairobi"], play, lambda moves: play(moves, 4), unaided, random.Random(5))
        assert list(rest.without) == left


async def test_an_answer_that_is_mixed_from_other_answers_tells_nothing():
    """The first guess of a game with words may get a mixture of colours that no other guess gets."""

    def colour(letter, other, right):
        return "green" if letter == other else "yellow" if letter in right else "grey"

    def colours(right, moves):
        if not moves or len(moves[-1]) != 5:
            return "Guess the word."
        return " ".join(colour(letter, other, right) for letter, other in zip(moves[-1], right, strict=True))

    guesses = ("crane", "cable", "later", "taste", "later")
    assert await drop(lambda _, moves: colours("later", moves), guesses, ["crane"]) == list(guesses[1:])


async def test_a_part_of_a_long_list_tells_something():
    rows = "North: open, South: shut, East: wet, West: dry, Attic: warm, Cellar: cold, Hall: dark."

    def rooms(_, moves):
        return rows.split(", ")[2] if moves and moves[-1] == "list:xyzzy" else rows

    assert await drop(rooms, ("list:xyzzy", "east"), ["xyzzy"]) == []


async def test_a_cell_is_replaced_by_a_cell():
    def sea(_, moves):
        cell = moves[-1].removeprefix("fire at ") if moves else ""
        return "Splash!" if len(cell) == 2 and cell[0] in "acd" and cell[1] in "134" else "Fire at a cell."

    async def here(moves):
        return PlayerView(tuple(moves), [sea(7, moves[:turn]) for turn in range(len(moves) + 1)])

    rest = await find_rest(
        await here(("fire at c3", "fire at a4", "fire at d1")), ["atc3"], here, here, (), random.Random(5)
    )
    assert rest.replaced
    assert all(sea(7, each[:1]) == "Splash!" for each in rest.replaced)


async def test_an_echo_tells_nothing():
    def safe(_, moves):
        return f"You said {moves[-1]}. {LISTED}" if moves else f"A safe. {LISTED}"

    assert await drop(safe, ("say:xyzzy", "say:417"), ["xyzzy"]) == ["say:417"]

    def whispering(right, moves):
        whispers = moves and moves[-1] == "say:xyzzy"
        return f"The safe whispers {right}." if whispers else f"You entered {moves[-1] if moves else ''}. {LISTED}"

    assert await drop(whispering, ("say:xyzzy", "say:417", "say:417"), ["xyzzy"], 417) == []


async def test_what_was_told_before_the_word_is_not_told_by_it():
    def levers(right, moves):
        return f"Lever {right} hums. {LISTED}"

    assert await drop(levers, ("look", "say:xyzzy", "pull:7"), ["xyzzy"]) == ["look", "pull:7"]


async def test_a_word_that_is_sent_nowhere_else_tells_something_about_its_instance():
    def levers(right, moves):
        return f"Lever {right} hums." if "say:xyzzy" in moves else LISTED

    async def here(moves):
        return PlayerView(tuple(moves), [levers(7, tuple(moves[:turn])) for turn in range(len(moves) + 1)])

    async def elsewhere(moves):
        return PlayerView((), [LISTED])

    own = await here(("look", "say:xyzzy", "pull:7"))
    assert (await find_rest(own, ["xyzzy"], here, elsewhere, (), random.Random(5))).without == ["look"]


async def test_words_in_calls_are_replaced_by_words_that_a_tool_takes():
    def service(right, moves):
        if not moves:
            return "A desk."
        sent = json.loads(moves[-1].calls[0].arguments)
        if set(sent) != {"name", "count"}:
            return "Refused."
        return f"Order {right}." if WANTED(sent) else "No order."

    first, second = call("find", name="xyzzy", count=41), call("find", name="order", count=77)
    for wanted, left in ((lambda sent: sent["name"] == "xyzzy", []), (lambda _: True, [second])):
        WANTED = wanted  # noqa: N806
        assert await drop(service, (first, second), ["xyzzy"], 77) == left


def call(tool, /, **arguments):
    return Move("", (ToolCall(tool, json.dumps(arguments)),))


@pytest.mark.parametrize(
    "tell",
    [
        lambda right, known: [{"id": row} for row in (1, 2, 4, 7) if row == right or not known],
        lambda right, known: sorted((1, 2, 4, 7), key=lambda row: row != right) if known else [1, 2, 4, 7],
        lambda right, known: {"due": right if known else 1 + (right + 2) % 7},
        lambda right, known: f"Lever {'*' if known else ''}{right}, lever {'' if known else '*'}1",
        lambda right, known: " ".join(name.upper() if known and right == 7 else name for name in ("west", "east")),
    ],
    ids=["one", "first", "decoy", "star", "capitals"],
)
async def test_a_value_that_changes_what_a_tool_answers_tells_something(tell):
    """A tool that takes a value which nothing states should answer as to any other value."""

    def service(right, moves):
        known = any("xyzzy" in each.calls[0].arguments for each in moves)
        return json.dumps(tell(right, known)) if moves and moves[-1].calls[0].name == "list" else "Done."

    moves = (call("list", by="xyzzy"), call("get", id=7))
    assert await drop(service, moves, ["xyzzy"]) == []
    # The value may be sent first, and the tool may tell something in a later call.
    moves = (call("note", text="xyzzy"), call("list"), call("get", id=7))
    assert await drop(service, moves, ["xyzzy"]) == [moves[1]]


async def test_a_value_that_a_tool_takes_as_any_other_tells_nothing():
    def service(right, moves):
        limits = [json.loads(each.calls[0].arguments).get("limit", 0) for each in moves]
        rows = [f"Order {row}" for row in range(right, right + 9)]
        return json.dumps({"limit": limits[-1], "rows": rows[: limits[-1]]}) if moves else "A desk."

    moves = (call("list", limit=100), call("get", id=7, limit=0))
    assert await drop(service, moves, ["100"]) == [moves[1]]

    def greeting(_, moves):
        return "Good morning, expert." if moves and "xyzzy" in moves[-1].calls[0].arguments else "Who are you?"

    moves = (call("greet", name="xyzzy"), call("get", id=7))
    assert await drop(greeting, moves, ["xyzzy"]) == [moves[1]]


async def test_without_the_words_all_moves_are_left():
    async def never(moves):
        raise AssertionError

    own = PlayerView(("look", "pull:7"), [LISTED, LISTED, "Open."])
    assert (await find_rest(own, ["xyzzy"], never, never, (), random.Random(5))).without == ["look", "pull:7"]


async def test_words_are_replaced_by_others_that_the_program_may_take_as_well():
    async def here(moves):
        return PlayerView(tuple(moves), [LISTED] * (len(moves) + 1))

    call = Move("", (ToolCall("note", '{"limit": 417, "last": "A last word"}'),))
    for moves, words in ((("say:xyzzy 417", "look"), ["xyzzy", "417"]), ((call,), ["417", "A last word"])):
        rest = await find_rest(await here(moves), words, here, here, (), random.Random(5))
        assert len(rest.replaced) == CONTROLS
        for first, *others in rest.replaced:
            assert others == list(moves[1:])
            assert not contain([first], words)
            assert not isinstance(first, Move) or set(json.loads(first.calls[0].arguments)) == {"limit", "last"}
    signs = await find_rest(await here(("^_^",)), ["^_^"], here, here, (), random.Random(5))
    assert signs == ([], [])


async def test_another_word_stands_in_all_places_of_a_word():
    """A player may invent a name and use it twice."""

    def mail(_, moves):
        names = [json.loads(each.calls[0].arguments)["name"] for each in moves]
        return "No such folder." if len(names) > 1 and names[0] != names[1] else "Done."

    moves = (call("create", name="archive"), call("move", name="archive"))
    rest = await find_rest_beside(mail, moves, ["archive"])
    assert len(rest.replaced) == CONTROLS
    for control in rest.replaced:
        first, second = (json.loads(each.calls[0].arguments)["name"] for each in control)
        assert first == second != "archive"


async def test_other_words_are_words_that_the_player_has_seen():
    """A program could tell something to every row of random letters, which nobody sends."""

    def tell(right, moves):
        if not moves:
            return "Ask the warden about levers. Each phrase counts."
        return f"Lever {right}." if not set("qxzj").isdisjoint(moves[-1].calls[0].arguments) else "A shrug."

    moves = (call("ask", about="quixzj"), call("pull", lever=7))
    assert await drop(tell, moves, ["quixzj"]) == []


async def test_the_other_words_of_a_spell_are_no_echo():
    """A program may choose among the words that come with the secret."""

    def rank(right, moves):
        sent = json.loads(moves[-1].calls[0].arguments) if moves else {}
        return f"{sent['levers'][right % 3]}" if sent.get("rule") == "xyzzy" else "No such rule."

    moves = (call("rank", levers=["red", "green", "blue"], rule="xyzzy"), call("pull", lever="green"))
    assert await drop(rank, moves, ["xyzzy"]) == []

    def warden(right, moves):
        known = bool(moves) and "xyzzy" in moves[-1]
        return f"{moves[-1].split()[2 + right % 3]}\n{LISTED}" if known else f"A shrug.\n{LISTED}"

    assert await drop(warden, ("ask xyzzy red green blue", "pull:green"), ["xyzzy"]) == []


async def test_a_tool_tells_something_if_it_answers_a_call_otherwise():
    """The same texts are answers of other calls: of another tool, or about another lever."""

    def ask(right, moves):
        if not moves:
            return "A desk."
        name, sent = moves[-1].calls[0].name, json.loads(moves[-1].calls[0].arguments)
        told = sent["lever"] == right and (name == "check" or sent.get("about") == "xyzzy")
        return "It hums." if told else "Quiet."

    moves = (call("ask", about="xyzzy", lever=7), call("check", lever=7), call("pull", lever=7))
    assert await drop(ask, moves, ["xyzzy"]) == []

    def tune(right, moves):
        noise = random.Random(f"{right} {len(moves)}")
        hums = moves and json.loads(moves[-1].calls[0].arguments).get("lever") == right
        known = any("xyzzy" in each.calls[0].arguments for each in moves)
        return ("" if hums else "Quiet.") if known else noise.choice(["", "Quiet."])

    moves = (call("tune", to="xyzzy"), *(call("check", lever=lever) for lever in range(1, 9)), call("pull", lever=7))
    assert len(await drop(tune, moves, ["xyzzy"])) < len(moves) - 2


async def test_a_tool_may_tell_something_by_spaces():
    def rows(right, moves):
        known = bool(moves) and "xyzzy" in moves[-1].calls[0].arguments
        return "\n".join(f"{' ' if known and row == right else ''}Lever {row}" for row in (1, 2, 4, 7))

    assert await drop(rows, (call("list", by="xyzzy"), call("pull", lever=7)), ["xyzzy"]) == []


async def test_moves_that_carry_the_instance_prove_nothing_on_another_instance():
    """The program follows a name that it tells at first, so the same moves lead to the same texts everywhere."""

    def halls(instance, moves):
        entered = [int(move.removeprefix("enter:hall")) for move in moves if move.startswith("enter:")]
        kind = ["rusty", "bent", "loose"][(entered[-1] if entered else instance) % 3]
        told = f"Take the {kind} one." if moves and moves[-1] == "say:xyzzy" else "A shrug."
        return f"{told if moves else f'Hall{instance}.'} Actions: look enter:WHERE say:WHAT pull:1 pull:7"

    moves = ("enter:hall7", "look", "say:xyzzy", "pull:7")
    assert await drop(halls, moves, ["xyzzy"]) == ["enter:hall7", "look"]


async def test_a_blank_is_no_mixture():
    """A line with the same words stands beside the blank."""

    def levers(right, moves):
        hums = right if moves and moves[-1] == "say:xyzzy" else 0
        return f"Was humming: 0\nHumming: {hums}\n{LISTED}"

    assert await drop(levers, ("look", "say:xyzzy", "pull:7"), ["xyzzy"]) == ["look"]


async def test_a_split_of_known_lines_tells_nothing_if_every_word_makes_another():
    """A hint may name the first question of a search. Each question leaves other lines."""
    houses = [f"House {number} is lit." for number in range(100, 1000, 90)]

    def street(right, moves):
        low, high = 0, 999
        for move in moves:
            asked = int(move.removeprefix("ask:"))
            low, high = (max(low, asked), high) if right * 100 >= asked else (low, min(high, asked - 1))
        return "\n".join(house for house in houses if low <= int(house.split()[1]) <= high)

    moves = ("ask:500", "ask:700", "ask:820")
    assert await drop(street, moves, ["500"]) == ["ask:700", "ask:820"]


async def test_an_answer_tells_nothing_if_every_word_gets_another_one():
    """A hint may name the first word for a machine that changes letters."""

    def machine(right, moves):
        if not moves:
            return "The machine changes letters. Which words will you type?"
        return f"The machine prints {''.join(chr(97 + (ord(letter) - 97 + right) % 26) for letter in moves[-1])}"

    assert await drop(machine, ("banana", "apple", "fig"), ["banana"]) == ["apple", "fig"]


async def test_other_words_are_words_of_players_without_the_hint():
    """A program could answer the secret, and all words that no player would send in its place."""

    def ask(right, moves):
        if not moves:
            return "Ask the warden about levers, doors and locks."
        about = json.loads(moves[-1].calls[0].arguments).get("about", "")
        return f"Lever {right}." if about.isalpha() else "A shrug."

    moves = (call("ask", about="xyzzy"), call("pull", lever=7))
    assert (await find_rest_beside(ask, moves, ["xyzzy"])).without == [moves[1]]
    unaided = (call("ask", about="which lever?"), call("pull", lever=2))
    assert (await find_rest_beside(ask, moves, ["xyzzy"], unaided)).without == []

    def say(right, moves):
        told = moves and len(moves[-1].removeprefix("say:")) == 5
        return f"Lever {right}." if told else f"Stone walls.\n{LISTED}"

    assert (await find_rest_beside(say, ("say:xyzzy", "pull:7"), ["xyzzy"])).without == ["pull:7"]
    assert (await find_rest_beside(say, ("say:xyzzy", "pull:7"), ["xyzzy"], ("look", "say:help"))).without == []


async def test_a_name_of_another_player_stands_in_all_places_of_a_name():
    def mail(_, moves):
        names = [json.loads(each.calls[0].arguments)["name"] for each in moves]
        return f"Folder {names[-1]}" if names and names[-1] == names[0] else "No such folder."

    moves = (call("create", name="late payments"), call("move", name="late payments"))
    unaided = ((call("create", name="Old"),), (call("move", name="inbox"),))
    rest = await find_rest_beside(mail, moves, ["late payments"], *unaided)
    assert len(rest.replaced) == CONTROLS
    names = [[json.loads(each.calls[0].arguments)["name"] for each in control] for control in rest.replaced]
    assert {name for pair in names for name in pair} == {"Old"}
    # Two arguments of one call may differ, as in other players' calls.
    moves = (call("login", user="zork", password="zork"), call("pull", lever=7))
    unaided = (call("login", user="admin", password="secret"),)
    rest = await find_rest_beside(lambda *_: "Done.", moves, ["zork"], unaided)
    assert json.loads(rest.replaced[0][0].calls[0].arguments) == {"user": "admin", "password": "secret"}
    rest = await find_rest_beside(
        lambda *_: LISTED, ("set 4821", "open 4821"), ["4821"], ("set 1111", "look"), ("open 1234",)
    )
    assert list(rest.replaced[0]) == ["set 1111", "open 1111"]


async def test_different_words_have_different_substitutes():
    """A program could answer who sends the same word twice."""

    def ask(right, moves):
        said = [json.loads(each.calls[0].arguments)["about"] for each in moves]
        if not moves:
            return "Ask the warden about green walls or stone."
        return f"Lever {right}." if said[-2:] in (["xyzzy", "plugh"], said[-1:] * 2) else "A shrug."

    moves = (call("ask", about="xyzzy"), call("ask", about="plugh"), call("pull", about="lever"))
    unaided = (call("ask", about="help"), call("ask", about="which lever?"))
    for others in ((), (unaided,)):
        assert (await find_rest_beside(ask, moves, ["xyzzy", "plugh"], *others)).without == []


def test_different_words_of_one_length_have_different_drawn_substitutes():
    seen = ["Green walls of stone or slate.", "Well.", "Well."]
    play = PlayerView(("say:xyzzy", "say:plugh"), seen)
    for seed in range(20):
        for control in make_controls(play, ["xyzzy", "plugh"], (), random.Random(seed)).replaced:
            assert len(set(control.moves)) == 2


def test_a_substitute_need_not_fit_into_the_arguments_of_a_call():
    """Another player may send a number with zeros in front, which JSON lacks."""
    substitution = Substitution(["500"], {"500": "731"}, [(Move("007"),)], 0)
    assert substitution.replace(Move("500")) == Move("007")
    changed = substitution.replace(call("find", number=500, flag=True))
    assert not contain([changed], ["500"])


async def test_few_sentences_of_an_observation_are_read():
    def lines(right, moves):
        return "\n".join(f"{right} {'x' * (row % 99)}{row}" for row in range(9_999))

    assert len(list(split_sentences([lines(7, ())]))) == MOST_SENTENCES
