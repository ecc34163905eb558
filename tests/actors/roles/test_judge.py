"""A designer asks a judge about its admitted program where the config says so."""

import functools

import pytest

from actors.roles import designer
from actors.roles.judge import REVIEW_TEMPERATURE, TEMPERATURE
from actors.text.profile import ChatMessage
from spade.errors import ConfigError
from spade.protocol import Measures, SubmitEnvironment, Verdict
from tests.actors.roles.test_designer import GOOD, job
from tests.actors.small_services import SmallReplay, acting, actor_settings
from tests.peers import changed

ADMITTED = Verdict(True, (), "VaultEnv", True, "Open the vault. Actions: 10..99", measures=Measures(17, 1))
designing = functools.partial(acting, designer, "designer")


@pytest.fixture
def settings(tmp_path, tokenizer):
    return actor_settings(
        tmp_path, "model.profile=full", "design.judge=true", "design.max_tokens=1000", "design.hint_max_tokens=40",
        "engine.context_tokens=40000", "play.max_turns=12",
    )  # fmt: skip


async def designed(settings, tokenizer, judged):
    """The measures handed in, and the requests of the engine."""
    small = SmallReplay(jobs=[job()])
    left = [f"```python\n{GOOD}```", "Use what is in place.", judged]
    async with designing(small, settings, tokenizer, lambda prompt: left.pop(0), lambda request: ADMITTED) as asked:
        await small.until_done(1)
    (submitted,) = small.done
    assert isinstance(submitted, SubmitEnvironment), submitted.reason
    return submitted.measures, asked


@pytest.mark.parametrize(("said", "reveals"), [("So \\boxed{yes}", True), ("\\boxed{no}", False), ("Perhaps.", None)])
async def test_the_judge_is_asked_once_for_an_admitted_program(settings, tokenizer, said, reveals):
    measures, asked = await designed(settings, tokenizer, said)
    assert measures == Measures(17, 1, reveals)
    design = settings.design.temperature
    assert [request.temperature for request in asked] == [design, design, TEMPERATURE]
    assert asked[2].max_tokens == settings.design.hint_max_tokens


async def test_nobody_is_asked_where_the_config_does_not_want_it(settings, tokenizer):
    measures, asked = await designed(changed(settings, design={"judge": False}), tokenizer, "never said")
    assert measures == Measures(17, 1, None)
    assert len(asked) == 2


async def test_a_program_without_room_for_the_question_is_not_judged(settings, tokenizer, monkeypatch):
    long = ChatMessage("user", "x" * settings.engine.context_tokens)
    monkeypatch.setattr("actors.roles.judge.ask_question", lambda source, observation: [long])
    measures, asked = await designed(settings, tokenizer, "never said")
    assert measures == Measures(17, 1, None)
    assert len(asked) == 2


def test_nano_has_no_judge(tmp_path, tokenizer):
    with pytest.raises(ConfigError, match=r"design\.judge: model\.profile 'nano'"):
        actor_settings(tmp_path, "design.judge=true")


async def reviewed(settings, tokenizer, *answers):
    """All that is handed in for a job with three reviews, and the requests of the engine, whose reviews say these."""
    asking = changed(settings, design={"judge": False, "reviews": 3, "review_max_tokens": 300, "attempts": 1})
    small = SmallReplay(jobs=[job()])
    left = [f"```python\n{GOOD}```", *answers, "Use what is in place."]
    async with designing(small, asking, tokenizer, lambda prompt: left.pop(0), lambda request: ADMITTED) as asked:
        await small.until_done(1)
    (done,) = small.done
    return done, asked


async def test_a_program_is_reviewed_so_often_and_let_through_where_no_review_says_no(settings, tokenizer):
    done, asked = await reviewed(settings, tokenizer, "\\boxed{yes}", "Perhaps.", "Sound. \\boxed{yes}")
    assert isinstance(done, SubmitEnvironment), done.reason
    reviews = asked[1:4]
    assert [(each.temperature, each.max_tokens) for each in reviews] == [(REVIEW_TEMPERATURE, 300)] * 3
    assert len({each.seed for each in reviews}) == 3


async def test_one_no_rejects_a_program_with_its_reason_and_nothing_more_is_asked(settings, tokenizer):
    done, asked = await reviewed(settings, tokenizer, "\\boxed{yes}", "The sum is wrong. \\boxed{no}")
    assert (done.stage, done.reason, done.last) == ("review", "The sum is wrong.", True)
    assert len(asked) == 3


async def test_a_program_without_room_for_the_review_is_rejected(settings, tokenizer, monkeypatch):
    long = ChatMessage("user", "x" * settings.engine.context_tokens)
    monkeypatch.setattr("actors.roles.judge.review", lambda source, observation: [long])
    done, _ = await reviewed(settings, tokenizer)
    assert (done.stage, done.reason) == ("review", "the program leaves no room for the question")
