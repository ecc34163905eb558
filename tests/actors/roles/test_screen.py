"""A designer of tool use: its situation, the screen of what was admitted, and hints that leak."""

import functools
import re

import msgspec
import pytest

from actors.roles import designer
from actors.roles.screen import TEMPERATURE, fit_question
from actors.text.tools.prompts import ToolProfile
from spade.codec import unpack_ids
from spade.config import DOMAINS
from spade.errors import RunError
from spade.protocol import DesignJob, RejectCandidate, Stage, SubmitEnvironment, Verdict
from spade.tokens import Tokenizer
from tests.actors.small_services import (
    SmallReplay,
    acting,
    actor_settings,
    byte_tokenizer,
    process,
    small_replay,
)
from tests.peers import changed
from tests.spade.token_shapes import qwen3_2507

PROGRAM = "class DeskEnv(ToolUseBaseEnv):\n    def reset(self, seed): ...\n    def solution(self): ...\n"
DRAFT = f"```python\n{PROGRAM}```"
ADMITTED = Verdict(
    True,
    (),
    "DeskEnv",
    True,
    "Find the new one.",
    suspects=("home",),
    values=("T-142", "7"),
    replayed="find() -> T-142",
)
HINT = "Look first, then write."
TOOLS = DOMAINS["tools"]
designing = functools.partial(acting, designer, "designer")


@pytest.fixture
def tokenizer(tmp_path):
    qwen3_2507(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    return Tokenizer.load(tmp_path)


@pytest.fixture
def settings(tmp_path, tokenizer):
    return actor_settings(
        tmp_path, "run.domain=tools", "model.profile=full", "design.hint_max_tokens=200",
        "tools.screen=true", "design.max_tokens=3000", "engine.context_tokens=40000", "design.attempts=2",
        "play.max_turns=12", "design.corpus=none",
    )  # fmt: skip


def job(**fields):
    return DesignJob("j0", 1, 0, "tool selection", draw=7, sampler=77, **fields)


async def designed(settings, tokenizer, *words, verdict=ADMITTED, gauges=None):
    """All that is handed in for a job, and the requests of the engine, which says these words in turn."""
    small = SmallReplay(jobs=[job()])
    left = list(words)
    async with designing(small, settings, tokenizer, lambda _: left.pop(0), lambda _: verdict) as asked:
        await small.until(lambda: any(isinstance(done, SubmitEnvironment) or done.last for done in small.done))
        if gauges is not None:
            beats = small.server.heartbeats.values
            await small.until(lambda: any(beat.gauges.items() >= gauges.items() for beat in beats()))
    assert left == []
    return small.done, asked


async def test_the_screen_is_asked_before_the_hint_and_lets_through_what_it_finds_sound(settings, tokenizer):
    said = (DRAFT, "All can be looked up. \\boxed{yes}", HINT)
    counted = {"screens": 1, "screen_no": 0, "screens_unread": 0}
    (submitted,), asked = await designed(settings, tokenizer, *said, gauges=counted)
    assert isinstance(submitted, SubmitEnvironment)
    assert (submitted.source, submitted.hint) == (PROGRAM, HINT)
    design = settings.design.temperature
    assert [request.temperature for request in asked] == [design, TEMPERATURE, design]
    assert asked[1].max_tokens == settings.design.max_tokens
    question = tokenizer.decode(unpack_ids(asked[1].prompt).tolist())
    for part in (PROGRAM.strip(), "find() -> T-142", "`home`"):
        assert part in question


async def test_what_the_screen_refuses_is_rejected_with_its_reason_in_one_bounded_line(settings, tokenizer):
    reason = "Nobody is told\nthe \x1b[31mcode. " + "x" * 2_000
    said = 2 * (DRAFT, f"{reason}\\boxed{{no}}")
    (first, second), _ = await designed(settings, tokenizer, *said, gauges={"screens": 2, "screen_no": 2})
    assert isinstance(first, RejectCandidate)
    assert (first.stage, second.stage, second.last) == ("screen", "screen", True)
    assert first.reason.startswith("Nobody is told the \\x1b[31mcode. xxx")
    assert len(first.reason) < 1_100
    assert "\n" not in first.reason


@pytest.mark.parametrize("said", ["Perhaps.", "\\boxed{maybe}", "yes", ""])
async def test_an_answer_that_cannot_be_read_counts_as_yes_and_is_counted(settings, tokenizer, said):
    counted = {"screens": 1, "screen_no": 0, "screens_unread": 1}
    (submitted,), _ = await designed(settings, tokenizer, DRAFT, said, HINT, gauges=counted)
    assert isinstance(submitted, SubmitEnvironment)


async def test_nothing_is_screened_where_the_config_does_not_want_it_or_admission_refused(settings, tokenizer):
    unscreened = changed(settings, tools={"screen": False})
    (submitted,), asked = await designed(unscreened, tokenizer, DRAFT, HINT)
    assert isinstance(submitted, SubmitEnvironment)
    assert len(asked) == 2
    refused = Verdict(False, (Stage("gate", False, "instruction 1 of 3 is met before anything is done"),))
    (first, _), _ = await designed(settings, tokenizer, DRAFT, DRAFT, verdict=refused)
    assert (first.stage, first.reason) == ("gate", "instruction 1 of 3 is met before anything is done")


async def test_a_program_beside_which_the_question_has_no_room_is_rejected(settings, tokenizer):
    long = DRAFT.replace(PROGRAM, f"{PROGRAM}# {'x' * 19_000}\n")
    (first, _), _ = await designed(changed(settings, design={"max_tokens": 20_000}), tokenizer, long, long)
    assert (first.stage, first.reason) == ("screen", "the program leaves no room for the question")


def test_a_long_transcript_is_cut_to_what_fits_and_said_to_be(tokenizer, settings):
    profile = ToolProfile(settings.design, settings.play, settings.tools)
    whole = msgspec.structs.replace(ADMITTED, replayed="a line\n" * 5_000)

    def tokens(messages):
        return len(tokenizer.prompt_ids(messages))

    bare = tokens(profile.screen(PROGRAM, "", ADMITTED.suspects))
    for room in (bare + 100, bare + 2_000):
        asked = fit_question(profile, tokenizer, PROGRAM, whole, room)
        assert room - 20 <= tokens(asked) <= room
        assert "a line\n" in asked[1].content
        assert "[The rest is left out.]\n</transcript>" in asked[1].content
    most = tokens(profile.screen(PROGRAM, whole.replayed, ADMITTED.suspects))
    assert "left out" not in fit_question(profile, tokenizer, PROGRAM, whole, most)[1].content
    assert "a line\n" not in fit_question(profile, tokenizer, PROGRAM, whole, bare - 1)[1].content


async def test_a_hint_that_gives_a_value_away_is_asked_for_once_more(settings, tokenizer):
    unscreened = changed(settings, tools={"screen": False})
    (submitted,), asked = await designed(unscreened, tokenizer, DRAFT, "Ask for T-142.", HINT)
    assert submitted.hint == HINT
    assert len({request.seed for request in asked}) == 3
    assert asked[1].prompt == asked[2].prompt


async def test_a_second_hint_that_leaks_fails_the_attempt(settings, tokenizer):
    unscreened = changed(settings, tools={"screen": False}, design={"attempts": 1})
    (rejected,), _ = await designed(unscreened, tokenizer, DRAFT, "Ask for T-142.", "It is t-142, 7 times.")
    assert (rejected.stage, rejected.last) == ("hint", True)
    assert rejected.reason == "it gives away what a player has to find out: T-142"


async def test_setting_and_variant_are_handed_in_and_the_same_in_all_attempts(settings, tokenizer):
    unscreened = changed(settings, tools={"screen": False})
    (rejected, submitted), asked = await designed(unscreened, tokenizer, "no program", DRAFT, HINT)
    assert (rejected.setting, rejected.variant) == (submitted.setting, submitted.variant)
    assert submitted.variant in TOOLS.variants
    prompts = [unpack_ids(request.prompt).tolist() for request in asked[:2]]
    assert prompts[0] == prompts[1]
    assert f"an everyday setting: {submitted.setting}." in tokenizer.decode(prompts[0])


async def test_a_file_of_settings_is_drawn_from(settings, tokenizer, tmp_path):
    (tmp_path / "settings.txt").write_text("a lighthouse\n")
    told = changed(settings, tools={"screen": False, "settings": str(tmp_path / "settings.txt")})
    (submitted,), _ = await designed(told, tokenizer, DRAFT, HINT)
    assert submitted.setting == "a lighthouse"


async def test_a_model_whose_template_shows_no_tools_ends_its_process_with_one_line(tmp_path):
    byte_tokenizer(tmp_path)
    settings = actor_settings(tmp_path, "run.domain=tools", "model.profile=full", "play.max_turns=12")
    says = rf"the chat template of {re.escape(str(tmp_path))} drops the tools; use a model whose template shows tools"
    with pytest.RaisesGroup(pytest.RaisesExc(RunError, match=says), flatten_subgroups=True):
        async with small_replay(SmallReplay(), settings) as replay, process(designer.run, "designer", replay, settings):
            pass
