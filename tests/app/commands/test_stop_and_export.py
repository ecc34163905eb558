"""The small commands where something else happens at the same time."""

import os
import shutil

import msgspec
import pytest

from spade.app.commands import model
from spade.app.commands.stop import stop
from spade.app.rundir import RunDir
from spade.config import load
from spade.errors import RunError
from spade.locks import here
from spade.policy.best import Best, keep
from spade.policy.manifest import PARAMETERS


@pytest.fixture
def run(tmp_path):
    made = RunDir(tmp_path / "run")
    made.create(load("nano"))
    return made


def test_a_run_that_left_before_it_was_told_to_is_stopped(run, monkeypatch, capsys):
    left = msgspec.structs.replace(here(), pid=1 << 30)  # no process of Linux has such a number
    held = iter([{"learner": left}, {"learner": left}, {"learner": left}])
    monkeypatch.setattr(RunDir, "holders", lambda self: next(held, {}))
    stop(run.path)
    assert capsys.readouterr().out == f"{run.path}: stopped\n"


def test_an_exported_model_is_there_whole_or_not_at_all(run, monkeypatch, tmp_path):
    weights, out = tmp_path / "weights", tmp_path / "out"
    weights.mkdir()
    (weights / "config.json").write_text("{}")
    monkeypatch.setattr(model, "newest_weights", lambda run: weights)

    def retired(source, target):
        os.mkdir(target)
        raise FileNotFoundError(source)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copytree", retired)
        with pytest.raises(RunError, match="was not made"):
            model.export(run.path, out)
    assert not [path for path in tmp_path.iterdir() if path.name not in ("run", "weights")]
    model.export(run.path, out)
    assert os.listdir(out) == ["config.json"]


def test_the_best_policy_is_exported_with_its_evaluation(run, tmp_path, capsys):
    with pytest.raises(RunError, match="no evaluation is over yet"):
        model.export_best(run.path, tmp_path / "out")
    weights = tmp_path / "weights"
    weights.mkdir()
    (weights / PARAMETERS).write_bytes(b"parameters")
    keep(run.path / "best", weights, Best(40, "d" * 32, "these plays", 0.625, 0.03, 192))
    model.export_best(run.path)
    model.export_best(run.path, tmp_path / "out")
    said = capsys.readouterr().out.splitlines()
    assert all(each.endswith("held-out win rate 0.62 ± 0.03 over 192 plays after step 40") for each in said)
    assert (tmp_path / "out" / PARAMETERS).read_bytes() == b"parameters"
