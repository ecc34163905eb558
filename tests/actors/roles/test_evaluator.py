import functools
import math
from pathlib import Path

import pytest
import trio

from actors.environments import runner as env_runner
from actors.roles import evaluator
from actors.roles.evaluator import draw_plays, read_programs, summary
from spade.codec import pack_floats, pack_ids, program_digest
from spade.errors import ConfigError
from spade.policy.best import find
from spade.policy.manifest import PARAMETERS
from spade.protocol import (
    Done,
    EndedPlay,
    Evaluation,
    Observed,
    OpenEpisode,
    StepEpisode,
    Trajectory,
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
        tmp_path, f"evaluation.programs={str(folder)!r}", "evaluation.plays=12", "evaluation.in_flight=3",
        "evaluation.every_steps=5", "play.context_tokens=700", "play.max_turn_tokens=40",
        "sandbox.random_win_share=1",  # of what a guess wins half of the time, the luck need not be tested
    )  # fmt: skip


evaluating = functools.partial(acting, evaluator, "evaluator")


def published(step):
    return Weights(VERSION + step, step, f"digest-{step}", "/weights")


def one(text):
    return "\\boxed{1}"


def won_by_one(settings):
    """The number of plays of a.py, which are every other one, that have 1 as the answer."""
    return sum(play.seed % 2 == 0 for play in draw_plays(settings, [PARITY, FAULTY]) if play.environment == "0")


async def test_an_evaluation_counts_plays_wins_and_voids(settings, tokenizer):
    small = SmallReplay()
    small.weights = published(0)
    async with evaluating(small, settings, tokenizer, one) as asked:
        await small.until_done(1)
    (told,) = small.done
    rate = won_by_one(settings) / 6
    assert 0 < rate < 1, "these seeds cannot tell a win from a loss"
    assert (told.plays, told.voids, told.win_rate) == (6, 6, rate)
    assert told.error == pytest.approx(math.sqrt(rate * (1 - rate) / 5))
    assert (told.step, told.oldest, told.newest) == (0, VERSION, VERSION)
    assert told.seconds > 0
    assert len(asked) == 6


async def test_an_env_runner_is_handed_the_programs_that_the_replay_service_does_not_have(settings, tokenizer):
    builtin = changed(settings, evaluation={"programs": "builtin"})
    small = SmallReplay()
    small.weights = published(0)
    async with evaluating(small, builtin, tokenizer, one):
        await small.until_done(1)
    assert (small.done[0].plays, small.done[0].voids) == (12, 0)
    assert set(small.fetched) == {program_digest(source) for source in read_programs(builtin)}


async def test_a_program_of_ones_own_that_reads_the_box_is_sent_it(settings, tokenizer, tmp_path):
    reads_box = PARITY.replace("action == str(self.hidden)", "action == f'\\\\boxed{{{self.hidden}}}'")
    (tmp_path / "programs" / "a.py").write_text(reads_box)
    small = SmallReplay()
    small.weights = published(0)
    async with evaluating(small, settings, tokenizer, one):
        await small.until_done(1)
    assert small.done[0].win_rate == won_by_one(settings) / 6 > 0


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
    assert sorted(validated) == sorted(read_programs(settings))


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
    assert (kept.step, kept.digest, kept.plays) == (winning, "digest-5", 6)
    assert kept.win_rate == won_by_one(settings) / 6 > 0
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
    assert (small.done[0].plays, small.done[0].win_rate) == (6, won_by_one(settings) / 6)


def ended(episode_return, versions=((3, 2),)):
    count = sum(count for _, count in versions)
    trajectory = Trajectory(pack_ids([7] * count), (0, count), pack_floats([-0.5] * count), versions, 1.0)
    return EndedPlay("p", 1, "terminated", episode_return, (episode_return,), 0.5, trajectory)


def test_a_summary():
    void = EndedPlay("p", 1, "fault", 0.0, (), 0.5, None, "exception: no")
    nearly = sum([0.1] * 10)  # under 1 by rounding
    plays = [ended(1.0, ((3, 1), (5, 1))), ended(0.99), ended(0.0, ((4, 2),)), ended(nearly), void]
    error = pytest.approx(math.sqrt(0.5 * 0.5 / 3))
    assert summary(plays, 2, 1.0, 9.0) == Evaluation(2, 3, 5, 4, 1, 0.5, error, 9.0)
    assert summary([void], 2, 1.0, 9.0) is None


def test_builtin_programs_are_the_held_out_ones_and_one_a_play(settings):
    builtin = changed(settings, evaluation={"programs": "builtin"})
    sources = read_programs(builtin)
    assert len(set(sources)) > 9  # small worlds may coincide
    assert len(sources) == 12
    assert sources == read_programs(builtin)


def test_a_folder_without_programs_is_refused(settings, tmp_path):
    with pytest.raises(ConfigError, match=r"^evaluation\.programs: .*nowhere"):
        read_programs(changed(settings, evaluation={"programs": str(tmp_path / "nowhere")}))
    (tmp_path / "programs" / "c.py").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"^evaluation\.programs: "):
        read_programs(settings)
