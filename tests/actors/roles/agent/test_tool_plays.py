"""Plays of tool use from lease to end, through the real env-runner and sandbox."""

import json
from pathlib import Path

import pytest
from msgspec import structs

from spade.codec import unpack_ids, unpack_mask
from spade.protocol import Faulted, Observed, OpenEpisode, ToolCall
from spade.tokens import Tokenizer
from tests.actors.roles.agent.higher import leases, playing
from tests.actors.small_services import SmallReplay, actor_settings
from tests.spade import token_shapes

DESK = '''\
class DeskEnv(ToolUseBaseEnv):
    def reset(self, seed):
        self._state = {"seen": [], "closed": []}
        self._user_messages = ["Find the new ticket.", "Close it."]
        self._message_criteria = [lambda state: "new" in state["seen"], lambda state: "T-7" in state["closed"]]
        return self._user_messages[0], {}

    def tool_find(self, status: Literal["new", "open"]) -> str:
        """List the tickets of a status."""
        self._state["seen"].append(status)
        return "T-7" if status == "new" else "none"

    def tool_close(self, ticket: str) -> str:
        """Close a ticket."""
        self._state["closed"].append(ticket)
        return "closed"

    def solution(self):
        return [("find", {"status": "new"}), ("close", {"ticket": "T-7"})]
'''


@pytest.fixture(params=token_shapes.TOOL_SHAPES, ids=lambda shape: shape.name)
def shape(request, tmp_path):
    request.param.build(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    return request.param


@pytest.fixture
def settings(shape, tmp_path):
    room = "play.context_tokens=4000", "engine.context_tokens=4096", "play.max_turn_tokens=1000"
    domain = "run.domain=tools", "evaluation.suite="
    return actor_settings(tmp_path, *domain, "tools.calls_per_turn=2", "play.max_turns=5", *room)


@pytest.fixture
def tokenizer(settings):
    return Tokenizer.load(Path(settings.model.path))


one_shape = pytest.mark.parametrize("shape", token_shapes.TOOL_SHAPES[:1], indirect=True, ids=["qwen3"])


def called(shape, name, **arguments):
    if shape.name == "xml":
        parameters = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items())
        return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def saying(*words):
    """Says these turn by turn; the last one again and again."""
    turns = iter(words)
    return lambda _: next(turns, words[-1])


async def test_a_play_is_won_by_calls_and_done(settings, tokenizer, shape):
    find, close = called(shape, "find", status="new"), called(shape, "close", ticket="T-7")
    said = f"Look. {called(shape, 'find', status='old')}<tool_call>?</tool_call>{find}", close, "<answer>done</answer>"
    small = SmallReplay(leases(1, hinted=True, source=DESK), programs=[DESK])
    async with playing(small, settings, tokenizer, saying(*said)):
        await small.until_done(1)
    (play,) = small.done
    assert (play.outcome, play.fault, play.rewards, play.episode_return) == ("terminated", "", (1 / 3, 2 / 3, 1.0), 1.0)
    assert (play.calls, play.refused, play.malformed, play.done, play.instructions, play.free) == (3, 1, 1, 2, 2, 0)
    assert play.recording.actions == ("", "", "done")
    assert [[call.name for call in calls] for calls in play.recording.calls] == [["find", "find"], ["close"], []]
    assert play.recording.calls[1] == (ToolCall("close", '{"ticket": "T-7"}'),)

    ids, mask = unpack_ids(play.trajectory.ids), unpack_mask(play.trajectory)
    trained = tokenizer.decode(ids[mask == 1].tolist(), keep=token_shapes.QWEN_MARKS)
    assert trained == "".join(said)
    text = tokenizer.decode(ids.tolist(), keep=token_shapes.QWEN_MARKS)
    parts = (
        "List the tickets of a status.", "Hint: It is not one.\nFind the new ticket.", 'must be one of "new", "open"',
        "Error: this call cannot be read: ", "T-7\n\nUser: Close it.", "closed\n\nAll requests are done.",
    )  # fmt: skip
    places = [text.index(part) for part in parts]
    assert places == sorted(places)


async def test_a_play_without_a_call_or_an_early_answer_costs_turns_and_is_lost(settings, tokenizer, shape):
    small = SmallReplay(leases(1, source=DESK), programs=[DESK])
    words = "I see.", "<answer>done</answer>", "<tool_call>{", called(shape, "gone")
    async with playing(small, settings, tokenizer, saying(*words)):
        await small.until_done(1)
    (play,) = small.done
    assert (play.outcome, play.rewards, play.episode_return) == ("truncated", (0.0,) * 5, 0.0)
    assert (play.calls, play.refused, play.malformed, play.done, play.instructions) == (2, 2, 1, 0, 2)
    text = tokenizer.decode(unpack_ids(play.trajectory.ids).tolist())
    assert "Call a tool, or submit" in text
    assert "Not done: 2 requests are left. The present one: Find the new ticket." in text
    assert "there is no tool" in text


@one_shape
async def test_a_tool_or_a_criterion_that_raises_voids_the_play(settings, tokenizer, shape):
    ends = [
        ('return "closed"', "raise KeyError(ticket)", "exception: KeyError: 'T-7'"),
        ('return "closed"', "sys.exit()", "exception: SystemExit"),
        ('"T-7" in state["closed"]', 'state["close"]', "exception: KeyError: 'close'"),
        ('return "closed"', "return {ticket}", "protocol: the result of close must be a value of JSON"),
    ]
    programs = [DESK.replace(sound, broken) for sound, broken, _ in ends]
    given = [structs.replace(leases(1, source=each)[0], id=f"p{place}") for place, each in enumerate(programs)]
    small = SmallReplay(given, programs=programs)
    find, close = called(shape, "find", status="new"), called(shape, "close", ticket="T-7")
    async with playing(small, settings, tokenizer, lambda text: close if "T-7" in text else find):
        await small.until_done(len(ends))
    for play, (_, _, fault) in zip(sorted(small.done, key=lambda play: play.id), ends, strict=True):
        assert (play.outcome, play.trajectory, play.episode_return) == ("fault", None, 0.0)
        assert play.fault.startswith(fault), play.fault


@one_shape
async def test_results_are_not_cut_and_a_play_without_room_for_them_keeps_all_that_was_sampled(
    settings, tokenizer, shape
):
    long = DESK.replace('return "closed"', 'return "word " * 5_000')
    small = SmallReplay(leases(1, source=long), programs=[long])
    find, close = called(shape, "find", status="new"), called(shape, "close", ticket="T-7")
    async with playing(small, settings, tokenizer, saying(find, close)):
        await small.until_done(1)
    (play,) = small.done
    assert (play.outcome, play.fault, play.rewards, play.episode_return) == ("truncated", "", (1 / 3, 2 / 3), 0.0)
    ids, mask = unpack_ids(play.trajectory.ids), unpack_mask(play.trajectory)
    assert tokenizer.decode(ids[mask == 1].tolist(), keep=token_shapes.QWEN_MARKS) == find + close
    assert "word" not in tokenizer.decode(ids.tolist())


async def test_nothing_that_is_thought_is_called_or_submitted(settings, tokenizer, shape):
    find, close = called(shape, "find", status="new"), called(shape, "close", ticket="T-7")
    thought = f"<think>\n{find} or <answer>done</answer>?\n</think>\n\n"
    small = SmallReplay(leases(1, source=DESK), programs=[DESK])
    async with playing(small, settings, tokenizer, saying(thought, f"{thought}{find}{close}<answer>done</answer>")):
        await small.until_done(1)
    (play,) = small.done
    assert (play.outcome, play.rewards, play.calls) == ("terminated", (0.0, 1.0), 2)
    assert [len(calls) for calls in play.recording.calls] == [0, 2]


@pytest.mark.parametrize(("tools", "fault"), [
    ("", "protocol: the program's tools: the program offers no tools"),
    ("5", "protocol: the program's tools: "),
    (json.dumps([{"function": {"name": "f", "parameters": {"properties": 5}}}]), None),
    (json.dumps([{"function": {"name": "f" * 50_000, "parameters": {}}}]), None),
])  # fmt: skip
async def test_tools_that_cannot_be_shown_void_the_play(settings, tokenizer, tools, fault):
    def answer(request):
        return Observed("Go.", tools=tools) if isinstance(request, OpenEpisode) else Faulted("protocol", "never played")

    small = SmallReplay(leases(1, source=DESK), programs=[DESK])
    async with playing(small, settings, tokenizer, saying("<answer>done</answer>"), runner=answer):
        await small.until_done(1)
    (play,) = small.done
    assert (play.outcome, play.trajectory) == ("fault", None)
    assert play.fault.startswith(fault or "protocol: ")
