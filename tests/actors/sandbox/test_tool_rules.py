"""Rules of a play with tools that no program bends: what a turn is, what counts, and that chance is the seed's."""

import json
import random

import pytest
from msgspec import structs

from actors.nano.tools.world import TOOLS as NANO
from actors.sandbox.host import PLAYS, REPEATS
from actors.sandbox.wire import Act, Inspect, LoadProgram, Reset
from actors.text.profile import Document
from spade.protocol import Faulted
from tests.actors.sandbox.test_tools import LOOK, SUBMIT, WORK, last, play, texts
from tests.actors.tool_programs import PAPERS, PARCELS, SOUND, TICKETS, call, tools

NOTE = Document("c1", "code", "Parcel tracking", "")


async def test_a_turn_is_a_message_whatever_its_calls_and_whatever_the_program_counts(sandbox):
    own = "def __init__(self, max_turns=25, **more): super().__init__(max_turns=max_turns); self.turn_count = 99"
    for source in (tools(), tools(extra=own)):
        await sandbox.open("e", source, 1, 2)
        first = await sandbox.step("e", 1, "", [LOOK] * 8)
        second = await sandbox.step("e", 2, "", [LOOK])
        assert [each.truncated for each in (first, second)] == [False, True]
        assert len(first.results) == 8


async def test_done_wins_at_the_end_alone_though_the_programs_own_check_is_always_true(sandbox):
    early = (await play(sandbox, PARCELS, ("done", [])))[-1]
    assert (early.reward, early.terminated) == (0.0, False)
    assert early.observation.startswith("Not done: 3 requests are left.")


async def test_instructions_are_met_in_order_though_a_later_one_holds(sandbox):
    source = tools(criteria="[lambda s: s['done'] == 1, lambda s: s['done'] == 2]")
    two, back = call("work", '{"times": 2}'), call("work", '{"times": -1}')
    played = await play(sandbox, source, ("done", [two]), ("done", [back]), ("done", [WORK]))
    assert [each.done for each in played] == [0, 0, 1, 2]
    assert [each.terminated for each in played] == [False, False, False, True]


async def test_what_nobody_asked_for_is_not_punished(sandbox):
    opened = await play(sandbox, TICKETS, ("", [call("find", '{"status": "open"}')]))
    numbers = [int(each) for each in texts(opened[1])[0].strip("[]").split(", ")]
    look, close = (
        [call(name, f'{{"number": {n}{note}}}') for n in numbers]
        for name, note in (("view", ""), ("close", ', "note": "solved"'))
    )
    won = (await play(sandbox, TICKETS, ("", [*look, *close]), ("done", [])))[-1]
    assert (won.reward, won.terminated) == (1.0, True)


async def test_all_results_of_a_message_share_one_bound(sandbox):
    source = tools(result="'x' * 150_000")
    assert [len(text) for text in texts(await last(sandbox, source, ("", [LOOK])))] == [150_000]
    ended = await last(sandbox, source, ("", [LOOK] * 2))
    assert ended == Faulted("protocol", "the results of a message are over 262144 bytes")


async def test_a_criterion_that_raises_later_ends_the_play_that_meets_it(sandbox):
    source = tools(criteria="[lambda s: s['done'], lambda s: s['done'] > 1 and s['x']]")
    first, second = (await play(sandbox, source, ("", [WORK]), ("", [WORK]), ("", [LOOK])))[1:]
    assert texts(first) == ["done 1\n\nUser: Two."]
    assert second.kind == "exception"
    assert "KeyError: 'x'" in second.detail


@pytest.mark.parametrize("hidden", ["self.tool_secret = lambda: 'breach'", "type(self).tool_secret = lambda self: 'x'"])
async def test_a_tool_that_was_not_offered_cannot_be_called(sandbox, hidden):
    _, seen = await play(sandbox, tools(reset=hidden), ("", [call("secret"), call("tool_secret"), call("solution")]))
    assert [result.refused for result in seen.results] == [True] * 3


async def test_the_tools_stay_those_of_the_opening(sandbox):
    change = "self._tools = {'fly': {}}; self._message_criteria[:] = []; self._user_messages[:] = ['x'] * 9"
    played = await play(sandbox, tools(look=change), ("", [LOOK, call("fly")]), ("", [call("work", '{"times": 2}')]))
    assert [result.refused for result in played[1].results] == [False, True]
    assert texts(played[2]) == [f"done 2\n\nUser: Two.\n\n{SUBMIT}"]


# ---------------------------------------------------------------- chance

WORDS = ["new", "hall", "attic", "P10", "B1", "daily", "solved"]
CHANCE = tools(
    module="FIRST = random.random()",
    state="{'done': 0, 'chance': random.random()}",
    result="[FIRST, self._state['chance'], random.random(), sorted({'a', 'b'})]",
)
ORDER = tools(result="list({'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'})")


def messages(offered, seed):
    """Messages of calls that fit the schemas, calls that do not, calls of no tool, and answers."""
    rng = random.Random(seed)
    for _ in range(6):
        names = rng.choices([*offered, "gone"], k=rng.randrange(4))
        calls = tuple((name, json.dumps(arguments(offered.get(name, {}), rng))) for name in names)
        yield Act(calls, rng.choice(["", "", "done", "no"]))


def arguments(properties, rng):
    values = {"integer": rng.randrange(5), "boolean": True, "string": rng.choice(WORDS), "array": [1]}
    drawn = {name: rng.choice(each.get("enum") or list(values.values())[:3]) for name, each in properties.items()}
    return drawn | ({"more": 1} if rng.random() < 0.1 else {})


async def transcript(sandbox, source, seed, twin):
    """The answers to reset and to messages of that seed in a process of the twin zygote, and its last state."""
    process = await sandbox.child(source, twin)
    await process.request(LoadProgram(source, 20), 60)
    answers = [await process.request(Reset(seed), 60)]
    offered = {tool.function.name: tool.function.parameters["properties"] for tool in answers[0].tools}
    for message in (*messages(offered, seed), Inspect()):
        answers.append(await process.request(message, 60))
    process.kill()
    return [structs.replace(answer, nonce="") for answer in answers]


async def test_the_same_seed_and_calls_give_the_same_transcript_under_two_hash_seeds(sandbox):
    rng = random.Random(3)
    nano = [NANO.draw(rng, NOTE, family.skills[0]).source for family in NANO.families]
    for seed, source in enumerate([*SOUND.values(), *PAPERS.values(), *nano, CHANCE, CHANCE]):
        first = await transcript(sandbox, source, seed, PLAYS)
        assert first == await transcript(sandbox, source, seed, REPEATS)
        assert any(not result.refused for answer in first[:-1] for result in answer.results)


async def test_chance_after_reset_is_the_same_whatever_the_constructor_drew(sandbox):
    draws = "def __init__(self, **more): super().__init__(**more); random.seed(); random.random()"
    plain, drawing = [
        (await play(sandbox, tools(result="random.random()", extra=extra), ("", [LOOK])))[-1] for extra in ("", draws)
    ]
    assert plain == drawing


async def test_what_the_constructor_draws_is_the_seeds(sandbox):
    draws = "def __init__(self, **more): super().__init__(**more); self.drawn = random.random()"
    source = tools(result="self.drawn", extra=draws)
    same, again, other = [texts((await play(sandbox, source, ("", [LOOK]), seed=seed))[-1]) for seed in (1, 1, 2)]
    assert same == again != other


async def test_the_two_hash_seeds_differ(sandbox):
    orders = set()
    for twin in (PLAYS, REPEATS):
        process = await sandbox.child(ORDER, twin)
        for request in (LoadProgram(ORDER, 9), Reset(1), Act((("look", "{}"),))):
            answer = await process.request(request, 60)
        process.kill()
        orders.add(answer.results)
    assert len(orders) == 2
