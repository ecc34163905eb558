"""The evaluator's process measures the newest programs, beside its evaluations or alone."""

import functools

import pytest

from actors.roles import evaluator
from actors.text.measures.diversity import compute_vendi_share
from actors.text.measures.tfidf import compute_tfidf
from spade.errors import ConfigError
from spade.processes.entry import Launch
from spade.protocol import Weights
from tests.actors.small_services import SmallReplay, acting, actor_settings
from tests.peers import changed

NEWEST = ["class AEnv: red", "class BEnv: blue", "class CEnv: blue", "class CEnv: blue"]
measuring = functools.partial(acting, evaluator, "evaluator")


@pytest.fixture
def settings(tmp_path, tokenizer):
    return actor_settings(tmp_path, "evaluation.suite=", "evaluation.diversity_programs=3", "evaluation.every_steps=5")


def after(step):
    return Weights(step + 1, step, f"digest-{step}", "/weights")


async def test_the_diversity_of_the_newest_programs_is_measured_every_few_steps(settings, tokenizer):
    small = SmallReplay()
    small.newest = NEWEST[:1]
    small.weights = after(0)  # one program alone is not measured
    async with measuring(small, settings, tokenizer, str) as asked:
        await small.until(lambda: small.counts == [3])
        small.newest = NEWEST
        small.weights = after(5)
        await small.until_done(1)
        small.newest = NEWEST[2:]
        small.weights = after(11)
        await small.until_done(2)
    first, second = small.done
    assert (first.step, first.programs, first.embedding) == (5, 3, "tfidf")
    assert first.share == pytest.approx(compute_vendi_share(compute_tfidf(NEWEST[1:])))
    assert (second.step, second.programs) == (11, 2)
    assert second.share == pytest.approx(1 / 2)  # twins
    assert asked == []  # no engine


async def test_a_model_without_its_package_is_refused_in_one_line(settings, monkeypatch, tmp_path):
    monkeypatch.setattr("spade.extras.find_installed", lambda extra: None)
    monkeypatch.setattr("spade.extras.get_requirement", lambda extra: "sentence-transformers>=5.2")
    wanted = changed(settings, evaluation={"embedding": "some/model"})
    with pytest.raises(ConfigError, match=r"it .*not installed; pip install -e '.\[measures\]' in the clone, or"):
        await evaluator.run(Launch("evaluator", "evaluator", "", str(tmp_path), "ipc://none"), wanted, lambda: None)
