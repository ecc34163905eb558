"""Runs, pools and notes that earlier commands left where an experiment is run."""

import re
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError

import msgspec
import pytest
import trio

from actors.suites import SUITES
from replay.inspect.environments import list_published
from replay.inspect.journal import StepRow
from replay.inspect.plays import count_trained
from spade.app.experiment.folder import ExperimentFolder, collect_origins, hold_origins, refuse_left
from spade.app.experiment.grid import Grid
from spade.app.experiment.pieces import find_measured, make
from spade.app.rundir import RunDir
from spade.config import load
from spade.errors import ConfigError, RunError
from spade.evaluations import Rules
from spade.pools import PoolProgram, make_writing_config, write_program
from tests.app.experiment.grids import OURS, TEXT, experiment, keep_evaluation, result
from tests.replay.kept_world import keep_world

SHORT = TEXT.replace("primary", 'protocol = "short"\nprimary')


def begin(place, piece):
    """The directory of a run that has begun."""
    run = place.run(piece)
    run.create(load(place.experiment.arms[piece.arm].recipe, (*place.settings(piece), "limits.steps=9")))
    return run


def test_a_run_is_gone_on_with_but_under_its_own_settings(tmp_path):
    place = ExperimentFolder(experiment(tmp_path), tmp_path, OURS)
    other = ExperimentFolder(
        experiment(tmp_path, TEXT.replace("primary", 'set = ["learner.lr=1e-4"]\nprimary')), tmp_path, OURS
    )
    for piece in place.experiment.pieces[:2]:
        refuse_left(place, piece)
        begin(place, piece)
        refuse_left(place, piece)
        with pytest.raises(RunError, match=rf"{piece}: .*other settings \(learner\.lr\)"):
            refuse_left(other, piece)


def test_a_pool_is_gone_on_with_but_under_the_settings_of_its_writer(tmp_path):
    text = TEXT.replace("pool]\nrecipe", "pool]\nset = ['learner.lr=1e-4']\nrecipe")
    place = ExperimentFolder(experiment(tmp_path, text), tmp_path, OURS)
    piece = place.experiment.pieces[1]
    made = RunDir(place.pool(piece) / ".make")
    made.path.mkdir(parents=True)
    made.create(make_writing_config("nano", place.experiment.overrides(place.writer(piece))))
    refuse_left(place, piece)
    made.create(make_writing_config("nano", ("run.seed=0", "learner.lr=1e-4")))
    with pytest.raises(RunError, match=r"pool-0/\.make: .*other settings"):
        refuse_left(place, piece)


def test_runs_of_one_folder_have_one_world_and_one_checkpoint(tmp_path):
    hold_origins(tmp_path, OURS)
    hold_origins(tmp_path, OURS)
    with pytest.raises(RunError, match="another world or checkpoint"):
        hold_origins(tmp_path, msgspec.structs.replace(OURS, checkpoint="0" * 32))
    (tmp_path / "origins.json").write_text("{")
    with pytest.raises(RunError, match=r"origins\.json: is damaged"):
        hold_origins(tmp_path, OURS)


def test_the_last_policy_is_what_counts_whatever_else_was_measured(tmp_path):
    place = ExperimentFolder(experiment(tmp_path, SHORT), tmp_path, OURS)
    run = begin(place, place.experiment.pieces[0])
    keep_world(run.store)
    versions = list_published(run.store)
    for weights in versions:
        (run.weights / weights.digest).mkdir(parents=True)
    last, short = versions[-1].digest, SUITES["nano"].protocol("short")
    rules = Rules(suite="nano", policy=last, seed=0, protocol=short, items=1, items_digest=OURS.world)
    others = [
        {"policy": versions[0].digest}, {"policy": "0" * 32}, {"seed": 1}, {"items_digest": "0" * 32},
        {"protocol": msgspec.structs.replace(short, samples=2)},
    ]  # fmt: skip
    for place_of, other in enumerate(others):
        keep_evaluation(run, msgspec.structs.replace(rules, **other), place_of)
    with pytest.raises(RunError, match=re.escape("its last policy was not measured on nano")):
        find_measured(place, run)
    keep_evaluation(run, rules, 77)
    assert find_measured(place, run).played == 77


def test_a_run_that_cannot_be_gone_on_with_is_told_and_holds_up_those_alone_that_wait_for_it(tmp_path):
    plan = experiment(tmp_path, SHORT)
    place, said = ExperimentFolder(plan, tmp_path, OURS), []
    for piece in plan.pieces:
        folder = place.run(piece).path
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text("[run]\nshape = 1")
    assert not trio.run(Grid(place, {}, tmp_path, said.append).work, 2)
    assert sorted(text.partition(": ")[0] for text in said if "unknown setting run.shape" in text) == [
        "full-0", "full-1", "no-memory-0",
    ]  # fmt: skip
    assert "pool-1: is left out, because its match full-1 failed" in said


def over(place, piece, steps):
    """A run that has made so many learner steps, the last of them with a batch in its store."""
    run = begin(place, piece)
    keep_world(run.store)
    rows = [StepRow(learner_step=step) for step in range(1, steps + 1)]
    (run.path / "metrics.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, rows)))
    return run


@pytest.fixture
def at_its_limit(monkeypatch):
    """Commands of runs that are at their limit, and of pools that have what is asked: they change nothing."""

    async def nothing(words, log):
        log.touch()

    monkeypatch.setattr("spade.app.experiment.pieces._run_spade", nothing)


def test_a_run_that_was_longer_than_the_experiment_is_now_is_refused(tmp_path, at_its_limit):
    place = ExperimentFolder(experiment(tmp_path, SHORT), tmp_path, OURS)
    run = over(place, place.experiment.pieces[0], 13)
    with pytest.raises(RunError, match=re.escape(f"{run.path}: has made 13 learner steps, over 12; delete the run")):
        trio.run(make, place, place.experiment.pieces[0], None)


def test_a_run_that_trained_on_more_than_its_match_is_refused(tmp_path, at_its_limit):
    place = ExperimentFolder(experiment(tmp_path, SHORT), tmp_path, OURS)
    full, pool = place.experiment.pieces[:2]
    fill(place.pool(pool), 8)
    run = over(place, pool, 13)
    had, _ = count_trained(run.store, 13)
    batch = place.experiment.config(pool).learner.batch_sequences
    match = msgspec.structs.replace(result(place.experiment, full), agent=had)
    with pytest.raises(RunError, match="was not measured"):
        trio.run(make, place, pool, match)
    match = msgspec.structs.replace(match, agent=had - batch)
    with pytest.raises(RunError, match=re.escape(f"{run.path}: trained on {had} trajectories of the agent, over the")):
        trio.run(make, place, pool, match)


def test_a_pool_of_another_size_than_the_experiment_has_now_is_refused(tmp_path, at_its_limit):
    place = ExperimentFolder(experiment(tmp_path, SHORT), tmp_path, OURS)
    full, pool = place.experiment.pieces[:2]
    fill(place.pool(pool), 9)
    with pytest.raises(RunError, match=re.escape(f"{place.pool(pool)}: has 9 programs, not 8; delete the run")):
        trio.run(make, place, pool, result(place.experiment, full))


def test_a_suite_whose_package_is_missing_is_refused_before_any_run(tmp_path, monkeypatch):
    def missing(_):
        raise PackageNotFoundError

    monkeypatch.setattr("actors.suites.suite.metadata.version", missing)
    with pytest.raises(ConfigError, match="suite reasoning-gym-nano: needs reasoning-gym"):
        collect_origins(experiment(tmp_path, TEXT.replace('"nano"\nref', '"reasoning-gym-nano"\nref')))


def fill(pool, programs):
    pool.mkdir(parents=True)
    for number in range(programs):
        write_program(pool, PoolProgram(f"p{number}", f"# {number}"))


COMMAND = """\
import sys
from pathlib import Path

import trio

from spade.app.experiment.pieces import _run_spade

trio.run(_run_spade, ["replay", "up", "nano", "--run", sys.argv[1]], Path("log"))
"""


def test_a_command_does_not_outlive_a_killed_experiment_and_imports_nothing_of_the_working_directory(tmp_path):
    (tmp_path / "platform.py").write_text("raise SystemExit('this is not the standard library')")
    run, until = RunDir(tmp_path / "run"), time.monotonic() + 300
    experiment = subprocess.Popen([sys.executable, "-P", "-c", COMMAND, str(run.path)], cwd=tmp_path)
    try:
        while not run.holders():
            assert experiment.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < until
            time.sleep(0.02)
    finally:
        experiment.kill()
        experiment.wait()
    while run.holders():
        assert time.monotonic() < until
        time.sleep(0.02)
