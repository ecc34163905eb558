"""The small commands where something else happens at the same time."""

import os
import shutil

import pytest

from spade.app.commands import model
from spade.app.commands.stop import stop
from spade.app.rundir import RunDir
from spade.config import load
from spade.errors import RunError


@pytest.fixture
def run(tmp_path):
    made = RunDir(tmp_path / "run")
    made.create(load("nano"))
    return made


def test_a_run_that_left_before_it_was_told_to_is_stopped(run, monkeypatch, capsys):
    held = iter([[1 << 30], []])  # no process of Linux has such a number
    monkeypatch.setattr(RunDir, "holders", lambda self: next(held))
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
