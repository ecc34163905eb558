"""Runs, pools and notes that earlier commands left where an experiment is run."""

import re

import msgspec
import pytest
import trio

from actors.suites import SUITES
from replay.inspect.environments import published
from spade.app.experiment.grid import Grid
from spade.app.experiment.pieces import measured
from spade.app.experiment.workplace import Workplace, hold_origins, refuse_left
from spade.app.rundir import RunDir
from spade.config import load
from spade.errors import RunError
from spade.estimates import ItemTally, share
from spade.evaluations import Rules, Summary, folder_of
from spade.pools import writing
from tests.app.experiment.grids import OURS, TEXT, experiment
from tests.replay.kept_world import keep_world

SHORT = TEXT.replace("primary", 'protocol = "short"\nprimary')


def begin(place, piece):
    """The directory of a run that has begun."""
    run = place.run(piece)
    run.create(load(place.experiment.arms[piece.arm].recipe, (*place.settings(piece), "limits.steps=9")))
    return run


def test_a_run_is_gone_on_with_but_under_its_own_settings(tmp_path):
    place = Workplace(experiment(tmp_path), tmp_path, OURS)
    other = Workplace(
        experiment(tmp_path, TEXT.replace("primary", 'set = ["learner.lr=1e-5"]\nprimary')), tmp_path, OURS
    )
    for piece in place.experiment.pieces[:2]:
        refuse_left(place, piece)
        begin(place, piece)
        refuse_left(place, piece)
        with pytest.raises(RunError, match=rf"{piece}: was begun with other settings \(learner\.lr\)"):
            refuse_left(other, piece)


def test_a_pool_is_gone_on_with_but_under_the_settings_of_its_writer(tmp_path):
    text = TEXT.replace("pool]\nrecipe", "pool]\nset = ['learner.lr=1e-4']\nrecipe")
    place = Workplace(experiment(tmp_path, text), tmp_path, OURS)
    piece = place.experiment.pieces[1]
    made = RunDir(place.pool(piece) / ".make")
    made.path.mkdir(parents=True)
    made.create(writing("nano", place.experiment.overrides(place.writer(piece))))
    refuse_left(place, piece)
    made.create(writing("nano", ("run.seed=0", "learner.lr=1e-5")))
    with pytest.raises(RunError, match=r"pool-0/\.make: was begun with other settings"):
        refuse_left(place, piece)


def test_runs_of_one_folder_have_one_world_and_one_checkpoint(tmp_path):
    hold_origins(tmp_path, OURS)
    hold_origins(tmp_path, OURS)
    with pytest.raises(RunError, match="its runs began with another world or checkpoint"):
        hold_origins(tmp_path, msgspec.structs.replace(OURS, checkpoint="0" * 32))
    (tmp_path / "origins.json").write_text("{")
    with pytest.raises(RunError, match=r"origins\.json: is damaged"):
        hold_origins(tmp_path, OURS)


def test_the_last_policy_is_what_counts_whatever_else_was_measured(tmp_path):
    place = Workplace(experiment(tmp_path, SHORT), tmp_path, OURS)
    run = begin(place, place.experiment.pieces[0])
    keep_world(run.store)
    versions = published(run.store)
    for weights in versions:
        (run.weights / weights.digest).mkdir(parents=True)
    last, short = versions[-1].digest, SUITES["nano"].protocol("short")
    rules = Rules(suite="nano", policy=last, seed=0, protocol=short, items=1, items_digest=OURS.world)
    others = [
        {"policy": versions[0].digest}, {"policy": "0" * 32}, {"seed": 1}, {"items_digest": "0" * 32},
        {"protocol": msgspec.structs.replace(short, samples=2)},
    ]  # fmt: skip
    for place_of, other in enumerate(others):
        keep(run, msgspec.structs.replace(rules, **other), place_of)
    with pytest.raises(RunError, match=re.escape("its last policy was not measured on nano")):
        measured(place, run)
    keep(run, rules, 77)
    assert measured(place, run).played == 77


def test_a_run_that_cannot_be_gone_on_with_is_told_and_holds_up_those_alone_that_wait_for_it(tmp_path):
    plan = experiment(tmp_path, SHORT)
    place, said = Workplace(plan, tmp_path, OURS), []
    for piece in plan.pieces:
        folder = place.run(piece).path
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text("[run]\nshape = 1")
    assert not trio.run(Grid(place, {}, tmp_path, said.append).work, 2)
    assert sorted(text.partition(": ")[0] for text in said if "unknown setting run.shape" in text) == [
        "full-0", "full-1", "no-memory-0",
    ]  # fmt: skip
    assert "pool-1: is left out, since full-1 failed, with which it is matched" in said


def keep(run, rules, played):
    """An evaluation that is over."""
    folder = folder_of(run.path, rules)
    folder.mkdir(parents=True)
    (folder / "protocol.toml").write_bytes(rules.toml())
    won = share([ItemTally(1, 1)])
    summary = Summary(
        scheduled=1, played=played, correct=1, headline=won, why="", categories={"level 1": won}, errors={}, read=0,
        sampled=0, means={},
    )  # fmt: skip
    (folder / "summary.json").write_bytes(msgspec.json.encode(summary))
