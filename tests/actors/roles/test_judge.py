"""A designer asks for reviews of its admitted program where the config says so."""

import functools

import pytest

from actors.roles import designer
from actors.roles.judge import REVIEW_TEMPERATURE
from actors.text.profile import ChatMessage
from spade.protocol import Measures, SubmitEnvironment, Verdict
from tests.actors.roles.test_designer import GOOD, job
from tests.actors.small_services import SmallReplay, acting, actor_settings
from tests.peers import changed

ADMITTED = Verdict(True, (), "VaultEnv", True, "Open the vault. Actions: 10..99", measures=Measures(17, 1))
designing = functools.partial(acting, designer, "designer")


@pytest.fixture
def settings(tmp_path, tokenizer):
    return actor_settings(
        tmp_path, "model.profile=full", "design.max_tokens=1000", "design.hint_max_tokens=40",
        "engine.context_tokens=40000", "play.max_turns=12",
    )  # fmt: skip


async def reviewed(settings, tokenizer, *answers):
    """All that is handed in for a job with three reviews, and the requests of the engine, whose reviews say these."""
    asking = changed(settings, design={"reviews": 3, "attempts": 1})
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
    assert [(each.temperature, each.max_tokens) for each in reviews] == [
        (REVIEW_TEMPERATURE, settings.design.max_tokens)
    ] * 3
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
