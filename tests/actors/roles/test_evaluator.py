import csv
import functools
import math
from pathlib import Path

import pytest
import trio

from actors.environments import runner as env_runner
from actors.play.examiner import SampleResult
from actors.roles import evaluator
from actors.roles.evaluator import summarise_samples
from actors.suites.held_out import HeldOut, read_held_out
from actors.suites.nano import NANO
from actors.text import worlds
from spade.codec import compute_program_digest, unpack_ids
from spade.evaluations import SampleRecord
from spade.policy.best import find
from spade.policy.manifest import PARAMETERS
from spade.protocol import (
    MOST_CATEGORIES,
    Done,
    Evaluation,
    Observed,
    OpenEpisode,
    StepEpisode,
    Validate,
    Verdict,
    Weights,
)
from tests.actors.small_services import (
    VERSION,
    SmallReplay,
    acting,
    actor_settings,
    process,
    says,
    service,
    small_replay,
)
from tests.peers import changed

PARITY = """\
class ParityEnv:
    def __init__(self, max_turns=4):
        self.hidden = 0

    def reset(self, seed):
        self.hidden = 1 + seed % 2
        return "Find it. Actions: 1..2", {}

    def step(self, action):
        return "Over.", float(action == str(self.hidden)), True, False, {}
"""
FAULTY = PARITY.replace("self.hidden = 0", "raise ValueError('never made')")


@pytest.fixture
def settings(tmp_path, tokenizer):
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "a.py").write_text(PARITY)
    (folder / "b.py").write_text(FAULTY)
    return actor_settings(
        tmp_path, f"evaluation.suite=folder:{folder}", "evaluation.plays=12",
        "evaluation.in_flight=3", "evaluation.every_steps=5", "play.context_tokens=700", "play.max_turn_tokens=40",
        "sandbox.random_win_share=1",  # of what a guess wins half of the time, the luck need not be tested
    )  # fmt: skip


evaluating = functools.partial(acting, evaluator, "evaluator")


def published(step):
    return Weights(VERSION + step, step, f"digest-{step}", "/weights")


def one(text):
    return "\\boxed{1}"


def won_by_one(settings):
    """The number of plays of a.py, which are every other one, that have 1 as the answer."""
    return sum(item.seed % 2 == 0 for item, _ in read_held_out(settings).samples if item.category == "a")


async def test_an_evaluation_counts_plays_wins_and_errors_which_are_wrong_answers(settings, tokenizer):
    small = SmallReplay()
    small.weights = published(0)
    async with evaluating(small, settings, tokenizer, one) as asked:
        await small.until_done(1)
    (told,) = small.done
    rate = won_by_one(settings) / 12
    assert 0 < rate < 0.5, "these seeds cannot tell a win from a loss"
    assert (told.plays, told.voids, told.win_rate, told.suite) == (12, 6, rate, "")
    assert told.error == pytest.approx(math.sqrt(rate * (1 - rate) / 11))
    assert (told.step, told.oldest, told.newest) == (0, VERSION, VERSION)
    assert told.seconds > 0
    assert len(asked) == 6


async def test_a_suite_is_played_by_its_own_numbers_with_the_library_that_it_needs(settings, tokenizer, tmp_path):
    names = "Question", "Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"
    with (tmp_path / "gpqa.csv").open("w", newline="") as file:
        csv.writer(file).writerows([names, *([f"Which {n}?", f"right {n}", "b", "c", "d"] for n in range(4))])
    suited = changed(
        settings, engine={"context_tokens": 9_000},
        evaluation={"suite": f"gpqa-diamond:{tmp_path}/gpqa.csv@short", "plays": 6, "in_flight": 6},
    )  # fmt: skip
    assert suited.sandbox.libraries == ()
    chosen = read_held_out(suited).samples
    right = ["answer = 'A'" in item.program for item, _ in chosen]
    assert 0 < sum(right) < 6, "these rows cannot tell a right answer from a wrong one"
    small = SmallReplay()
    small.weights = published(0)
    async with evaluating(small, suited, tokenizer, lambda _: "It is \\boxed{A}.") as asked:
        await small.until_done(1)
    (told,) = small.done
    assert (told.plays, told.voids, told.suite) == (6, 0, "gpqa-diamond")
    # Two of the four items were played twice, and both samples of them were alike.
    assert told.win_rate == sum(right[:4]) / 4
    assert {(each.temperature, each.top_p, each.top_k, each.max_tokens) for each in asked} == {(0.7, 0.8, 20, 8_192)}
    assert len({each.seed for each in asked}) == 6
    assert set(small.fetched) == {compute_program_digest(item.program) for item, _ in chosen}


async def test_a_program_of_ones_own_that_reads_the_box_is_sent_it(settings, tokenizer, tmp_path):
    reads_box = PARITY.replace("action == str(self.hidden)", "action == f'\\\\boxed{{{self.hidden}}}'")
    (tmp_path / "programs" / "a.py").write_text(reads_box)
    small = SmallReplay()
    small.weights = published(0)
    async with evaluating(small, settings, tokenizer, one):
        await small.until_done(1)
    assert small.done[0].win_rate == won_by_one(settings) / 12 > 0


async def test_a_program_of_ones_own_that_asks_one_question_is_played_as_one(settings, tokenizer, tmp_path):
    for kept in (tmp_path / "programs").glob("*.py"):
        kept.write_text(worlds.ANSWER)
    full = changed(settings, model={"profile": "full"}, play={"max_turns": 9})
    small = SmallReplay()
    small.weights = published(0)
    async with evaluating(small, full, tokenizer, one) as asked:
        await small.until_done(1)
    prompts = [tokenizer.decode(unpack_ids(each.prompt).tolist()) for each in asked]
    assert prompts
    assert all("A wrong answer ends the play" in prompt for prompt in prompts)


async def test_plays_at_once_of_one_program_have_its_form_found_once(settings, tokenizer):
    validated = []

    def answer(request):
        match request:
            case Validate():
                validated.append(request.source)
                return Verdict(True, ())
            case OpenEpisode():
                return Observed("Find it. Actions: 1..2")
            case StepEpisode():
                return Observed("Over.", 1.0, terminated=True)
        return Done()

    small = SmallReplay()
    small.weights = published(0)
    async with evaluating(small, settings, tokenizer, one, answer):
        await small.until_done(1)
    assert sorted(validated) == sorted({item.program for item, _ in read_held_out(settings).samples})


async def test_the_next_is_some_steps_later_and_of_the_same_plays(settings, tokenizer):
    small = SmallReplay()
    small.weights = published(0)
    async with evaluating(small, settings, tokenizer, one) as asked:
        await small.until_done(1)
        first, asked[:] = sorted((request.prompt, request.seed) for request in asked), []
        small.weights = published(4)
        beats = []
        await small.until(lambda: len(beats) > 20 or beats.append(0))  # each is a heartbeat that brought step 4
        assert len(small.done) == 1
        small.weights = published(7)
        await small.until_done(2)
    assert [told.step for told in small.done] == [0, 7]
    assert sorted((request.prompt, request.seed) for request in asked) == first
    assert small.done[0].win_rate == small.done[1].win_rate


async def test_the_policy_of_the_best_evaluation_is_kept_with_the_weights_it_began_with(
    settings, tokenizer, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # the run directory of these small services
    for step in (0, 5, 10):
        (tmp_path / "weights" / f"digest-{step}").mkdir(parents=True)
        (tmp_path / "weights" / f"digest-{step}" / PARAMETERS).write_bytes(b"%d" % step)
    winning = 5
    small = SmallReplay()
    small.weights = published(0)
    # Nothing is won but at one step; the answer 3 is never right.
    async with evaluating(
        small, settings, tokenizer, lambda _: f"\\boxed{{{1 if small.weights.step == winning else 3}}}"
    ):
        await small.until_done(1)
        assert find(Path("best"))[1].step == 0
        for number, step in ((2, winning), (3, 10)):
            small.weights = published(step)
            await small.until_done(number)
    folder, kept = find(tmp_path / "best")
    assert (kept.step, kept.digest, kept.plays) == (winning, "digest-5", 12)
    assert kept.win_rate == won_by_one(settings) / 12 > 0
    assert (folder / PARAMETERS).read_bytes() == b"5"


async def test_an_engine_that_dies_costs_no_play(settings, tokenizer):
    small = SmallReplay()
    small.weights = published(0)
    async with (
        small_replay(small, settings) as replay,
        process(env_runner.run, "env-runner", replay, settings),
        process(evaluator.run, "evaluator", replay, settings),
    ):
        asked = trio.Event()
        async with service("engine", "engine-0", replay, settings, lambda _: asked.set()):
            await asked.wait()
        async with service("engine", "engine-1", replay, settings, says(tokenizer, one)):
            await small.until_done(1)
    assert (small.done[0].voids, small.done[0].win_rate) == (6, won_by_one(settings) / 12)


MEASURE = "0" * 32
NANO_HELD_OUT = HeldOut((NANO, NANO.protocol("paper")), (), MEASURE)
FOLDER_HELD_OUT = HeldOut(None, (), MEASURE)


def examined(item, sample, correct, versions=(3,), error=None):
    record = SampleRecord(
        item=item, sample=sample, seed=1, prompt="0" * 32, text="", extracted="", correct=correct, score=0.0, finish="",
        read=1, sampled=1, seconds=0.5, error=error,
    )  # fmt: skip
    return SampleResult(record, frozenset(versions))


def test_a_summary_has_its_error_over_items_and_not_over_samples():
    pairs = [examined(item, sample, item in "ab", (3, 5)) for item in "abcd" for sample in range(2)]
    error = pytest.approx(math.sqrt(0.5 * 0.5 / 3))
    made = summarise_samples(pairs, {"a": "x", "b": "y", "c": "y", "d": "y"}, NANO_HELD_OUT, 2, 9.0)
    assert made == Evaluation(2, 3, 5, 8, 0, 0.5, error, 9.0, "nano", {"x": 1.0, "y": pytest.approx(1 / 3)}, MEASURE)


def test_a_summary_of_many_categories_has_none_of_them():
    pairs = [examined(str(item), 0, True) for item in range(MOST_CATEGORIES + 1)]
    made = summarise_samples(pairs, {each.record.item: each.record.item for each in pairs}, NANO_HELD_OUT, 2, 9.0)
    assert made is not None
    assert (made.win_rate, made.categories) == (1.0, {})


def test_an_error_is_a_wrong_answer_and_errors_alone_are_no_evaluation():
    failed = examined("b", 0, False, (), "environment")
    made = summarise_samples([examined("a", 0, True), failed], {"a": "", "b": ""}, FOLDER_HELD_OUT, 2, 9.0)
    assert made == Evaluation(2, 3, 3, 2, 1, 0.5, 0.5, 9.0, categories={"": 0.5}, measure=MEASURE)
    assert summarise_samples([failed], {"b": ""}, FOLDER_HELD_OUT, 2, 9.0) is None
