"""The small commands where something else happens at the same time."""

import os
import shutil
import sys
from types import SimpleNamespace

import msgspec
import pytest

from spade.app.commands import model, nano
from spade.app.commands.stop import stop
from spade.app.rundir import RunDir
from spade.app.supervisor import kept
from spade.app.supervisor.kept import KeptPolicy
from spade.config import load
from spade.errors import RunError, SpadeError, WeightsError
from spade.locks import describe_this_process
from spade.policy import manifest
from spade.policy.best import Best, keep


@pytest.fixture
def run(tmp_path):
    made = RunDir(tmp_path / "run")
    made.create(load("nano"))
    return made


def test_a_run_that_left_before_it_was_told_to_is_stopped(run, monkeypatch, capsys):
    left = msgspec.structs.replace(describe_this_process(), pid=1 << 30)  # no process of Linux has such a number
    held = iter([{"learner": left}, {"learner": left}, {"learner": left}])
    monkeypatch.setattr(RunDir, "holders", lambda self: next(held, {}))
    stop(run.path)
    assert capsys.readouterr().out == f"{run.path}: stopped\n"


@pytest.fixture
def weights(run, tiny_checkpoint, monkeypatch):
    """The newest policy of the run."""
    folder = run.weights / manifest.verify_parameters(tiny_checkpoint)
    shutil.copytree(tiny_checkpoint, folder)
    there = KeptPolicy(7, "published", folder, (folder.name,))
    monkeypatch.setattr(kept, "find_newest_policy", lambda run: there)
    return folder


def damage(folder):
    file = folder / manifest.PARAMETERS
    file.write_bytes(file.read_bytes()[:-1] + b"x")


def test_an_exported_model_is_there_whole_or_not_at_all(run, weights, monkeypatch, tmp_path):
    out = tmp_path / "out"

    def retired(source, target):
        os.mkdir(target)
        raise FileNotFoundError(source)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copytree", retired)
        with pytest.raises(RunError, match="was not made"):
            model.export(run.path, out)
    assert os.listdir(tmp_path) == ["run"]
    model.export(run.path, out)
    assert sorted(os.listdir(out)) == sorted(os.listdir(weights))


def test_damaged_weights_are_not_exported(run, weights, tmp_path):
    damage(weights)
    with pytest.raises(RunError, match=rf"its digest is not {weights.name}; .*changed or cut short; nothing was"):
        model.export(run.path, tmp_path / "out")
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize(("name", "says"), [
    ("tokenizer.json", "/tokenizer.json: "), ("config.json", "/config.json: "), ("manifest.json", "/manifest.json: "),
])  # fmt: skip
def test_a_policy_with_another_damaged_file_is_not_exported(run, weights, tmp_path, name, says):
    manifest.write(weights)
    os.truncate(weights / name, 30)
    with pytest.raises(SpadeError, match=says):
        model.export(run.path, tmp_path / "out")
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize("to", ["secret", "secrets", "../..", "nothing"])
def test_a_policy_with_a_link_is_not_exported_since_a_copy_would_hold_other_files(run, weights, tmp_path, to):
    (tmp_path / "secret").write_text("token")
    (tmp_path / "secrets").mkdir()
    before = sorted(os.listdir(tmp_path))
    (weights / "extra").symlink_to(tmp_path / to)
    with pytest.raises(RunError, match="extra: is a link"):
        model.export(run.path, tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == before


def test_a_build_says_what_it_does_before_it_imports_torch(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "spade.app.nano.build", None)
    with pytest.raises(ImportError):
        nano.build(tmp_path / "out")
    assert capsys.readouterr().out.startswith(f"{tmp_path}/out: building the nano model of games")


def test_a_model_is_not_built_over_another_folder_and_is_there_whole_or_not_at_all(weights, tmp_path, monkeypatch):
    def be_killed(part, *_):
        (part / "model").mkdir(parents=True)
        raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "spade.app.nano.build", SimpleNamespace(build=be_killed))
    before = sorted(os.listdir(weights))
    with pytest.raises(RunError, match="exists already"):
        nano.build(weights)
    with pytest.raises(KeyboardInterrupt):
        nano.build(tmp_path / "out")
    assert (sorted(os.listdir(weights)), os.listdir(tmp_path)) == (before, ["run"])


def test_damaged_weights_are_not_measured(run, weights):
    damage(weights)
    with pytest.raises(WeightsError, match="changed or cut short"):
        nano.measure(str(run.path))


def test_the_best_policy_is_exported_with_its_evaluation(run, weights, tmp_path, capsys):
    with pytest.raises(RunError, match="no evaluation"):
        model.export_best(run.path, tmp_path / "out")
    keep(run.path / "best", weights, Best(40, weights.name, "these plays", 0.625, 0.03, 192))
    model.export_best(run.path)
    model.export_best(run.path, tmp_path / "out")
    said = capsys.readouterr().out.splitlines()
    assert all(each.endswith("held-out win rate 0.62 ± 0.03 over 192 plays after step 40") for each in said)
    assert manifest.verify_parameters(tmp_path / "out", weights.name)
    (run.path / "best" / "1" / "policy" / manifest.PARAMETERS).rename(tmp_path / "moved")
    with pytest.raises(FileNotFoundError, match=f"No such file or directory: '.*/policy/{manifest.PARAMETERS}'"):
        model.export_best(run.path, tmp_path / "again")
    (tmp_path / "moved").rename(run.path / "best" / "1" / "policy" / manifest.PARAMETERS)
    damage(run.path / "best" / "1" / "policy")
    with pytest.raises(RunError, match="its digest is not"):
        model.export_best(run.path, tmp_path / "again")
