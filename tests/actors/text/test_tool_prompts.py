"""The prompts of tool use for instruct models: whole, of each setting, variant, skill and difficulty."""

import itertools
import re

import pytest

from actors import corpus
from actors.corpus.settings import BUILTIN
from actors.text.profile import ChatMessage, Situation
from actors.text.tools import rules
from actors.text.tools.example import LENDING
from actors.text.tools.prompts import ToolProfile, count_requests
from spade.config import DOMAINS, Design, Play, ToolUse
from spade.protocol import MemorySeed, ToolCall
from spade.tokens import Tokenizer
from tests.actors.sandbox.test_tools import play, solved
from tests.spade.token_shapes import TOOL_SHAPES

TOOLS = DOMAINS["tools"]
DOCUMENT = corpus.load("builtin", "tools")[0]
SEED = MemorySeed("e1", "class GoodEnv(ToolUseBaseEnv):\n    pass  # good\n", 0.31, 0.5)
BAD = MemorySeed("e2", "class BadEnv(ToolUseBaseEnv):\n    pass  # bad\n", 0.0, 0.97, "too easy")
DESIGN = Design()
SITUATIONS = [Situation(*each) for each in itertools.product(BUILTIN, TOOLS.variants)]
PROGRAM = "class DeskEnv(ToolUseBaseEnv):\n    def reset(self): ...\n    def solution(self): ...\n"

profile = ToolProfile(DESIGN, Play(), ToolUse())


def draws():
    """A draw of each difficulty."""
    found = {}
    for draw in range(100):
        found.setdefault(re.search(r"it shall be ([a-z ]+)\.", asked(draw=draw))[1], draw)
    assert len(found) == len(DESIGN.difficulties)
    return list(found.values())


def asked(situation=SITUATIONS[0], skill="tool selection", draw=0, seeds=(), avoid=None, document=DOCUMENT):
    return profile.design(skill, document, seeds, avoid, draw, situation)[1].content


def everything():
    """All prompts that there are, without the programs in them."""
    for skill, situation, draw in itertools.product(TOOLS.skills, SITUATIONS, draws()):
        yield asked(situation, skill, draw, (SEED,), BAD).replace(LENDING.strip(), "")
    others = (
        profile.hint(PROGRAM),
        profile.screen(PROGRAM, "call find()\nresult x", ("home",)),
        profile.play("Find it.", "Look first."),
        profile.design("tool selection", None, (), None, 0, SITUATIONS[0])[:1],
    )
    yield from (message.content for messages in others for message in messages)


def test_no_prompt_has_a_slot_that_was_not_filled_or_names_a_benchmark():
    texts = list(everything())
    assert len(texts) == 6 * 40 * 3 + 7
    for text in texts:
        assert set(re.findall(r"\{[^}\n]*\}", text)) <= {"{}", "{yes}", "{no}", '{"record": "R1", "kind": "one"}'}
        assert not re.search(r"bench|bfcl|tau2?\b|τ|\bace\b|leaderboard", text, re.IGNORECASE)


@pytest.mark.parametrize("shape", TOOL_SHAPES, ids=lambda shape: shape.name)
def test_a_real_template_renders_every_prompt_whole(shape, tmp_path):
    shape.build(tmp_path)
    tokenizer = Tokenizer.load(tmp_path)
    variants = [
        profile.design(skill, DOCUMENT, (), None, draw, situation)
        for skill, situation, draw in zip(TOOLS.skills, SITUATIONS, itertools.cycle(draws()), strict=False)
    ]
    for messages in (*variants, profile.hint(PROGRAM), profile.screen(PROGRAM, "x", ()), profile.play("Go.", "So.")):
        read = tokenizer.decode(tokenizer.prompt_ids(messages))
        assert all(message.content.strip() in read for message in messages)


def test_every_skill_and_variant_of_the_domain_has_its_words():
    assert set(rules.SKILLS) == set(TOOLS.skills)
    assert set(rules.VARIANTS) == set(TOOLS.variants)
    assert len({asked(situation) for situation in SITUATIONS}) == len(BUILTIN) * len(TOOLS.variants)


def test_a_request_holds_setting_document_and_examples_whole():
    text = asked(Situation("a lighthouse", "missing value"), seeds=(SEED,), avoid=BAD)
    for part in ("a lighthouse", DOCUMENT.text, SEED.source.strip(), "0.31", BAD.source.strip(), LENDING.strip()):
        assert part in text
    assert "a value that nobody states" in text
    bare = asked(document=None)
    assert len(bare) < 11_500  # docs/designing.md, "The room"
    assert "<text>" not in bare
    assert "earlier service" not in bare


def test_difficulty_is_the_number_of_requests_and_calls():
    assert [count_requests(calls) for calls in (1, 5, 6, 8, 9, 12, 25)] == [
        "two", "three", "three", "four", "four", "five", "eight",
    ]  # fmt: skip
    deep = ToolProfile(Design(difficulties=(("abysmal", 12),)), Play(max_turns=13), ToolUse())
    text = deep.design("tool selection", None, (), None, 3, SITUATIONS[0])[1].content
    for part in ("five requests", "about 12 calls", "There are five, each short", "About 12 calls.", "has 13 messages"):
        assert part in text
    assert "You have 13 messages" in deep.play("x", None)[0].content


def test_settings_and_variants_are_drawn_by_the_job_and_its_weights():
    count = 3_000
    drawn = [profile.situation(BUILTIN, draw) for draw in range(count)]
    assert drawn[7] == profile.situation(BUILTIN, 7)
    for variant, weight in zip(TOOLS.variants, (3, 2, 1, 1), strict=True):
        assert sum(each.variant == variant for each in drawn) / count == pytest.approx(weight / 7, abs=0.03)
    for setting in BUILTIN:
        assert sum(each.setting == setting for each in drawn) / count == pytest.approx(0.1, abs=0.03)
    both = sum((each.setting, each.variant) == (BUILTIN[0], "execute") for each in drawn) / count
    assert both == pytest.approx(3 / 70, abs=0.02)  # each apart from the other


@pytest.mark.parametrize("place", range(4))
def test_a_variant_of_weight_zero_is_never_drawn_and_one_alone_always(place):
    weights = [0.0] * 4
    weights[place] = 0.5
    alone = ToolProfile(DESIGN, Play(), ToolUse(variants=tuple(weights)))
    assert {alone.situation(("a desk",), draw) for draw in range(200)} == {Situation("a desk", TOOLS.variants[place])}


def test_the_screen_is_shown_program_transcript_and_suspects():
    system, user = profile.screen(PROGRAM, "find() -> x", ("home", "T7"))
    assert (system.role, user.role) == ("system", "user")
    for part in (PROGRAM.strip(), "find() -> x", "`home`, `T7`", "\\boxed{yes}", "\\boxed{no}"):
        assert part in user.content
    assert "These words" not in profile.screen(PROGRAM, "find() -> x", ())[1].content


def test_a_program_is_read_behind_the_thinking_and_before_its_use():
    use = "```python\nclass Player:\n    def step(self): ...\n    def reset(self): ...\n```\n"
    written = profile.program(f"<think>{use}</think>```python\n{PROGRAM}```\nIt is used so:\n{use}")
    assert written is not None
    assert written.source == PROGRAM
    assert profile.hint_text("Hint: Look first.") == "Look first."
    assert profile.play("Find it.", None)[1:] == [ChatMessage("user", "Find it.")]


@pytest.mark.parametrize("seed", [1, 2])
async def test_the_worked_example_is_won_by_its_solution_and_each_request_by_a_call_of_its_own(sandbox, seed):
    calls, transcript = await solved(sandbox, LENDING, seed)
    assert (len(calls), transcript[-1][3:]) == (6, (1.0, True))
    assert [answer[3] for answer in transcript] == [0.0, 0.0, 0.25, 0.25, 0.5, 0.5, 0.75, 1.0]


async def test_instances_of_the_worked_example_differ_and_its_guard_can_be_read(sandbox):
    texts = {(await play(sandbox, LENDING, seed=seed))[0].observation for seed in range(4)}
    assert len(texts) > 1
    calls = [ToolCall(*each) for each in (await solved(sandbox, LENDING, 5))[0]]
    early = await play(sandbox, LENDING, ("", (calls[1], calls[3])), ("", calls[-1:]), seed=5)
    assert "which has to be settled first" in early[1].results[1].text
    assert early[-1].done == 1
