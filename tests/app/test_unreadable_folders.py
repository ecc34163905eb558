"""A folder that may not be read is one line. It is never taken for an empty folder."""

import pytest

from actors.suites.held_out import read_held_out
from learner import checkpoint
from spade.app.evaluation.policies import list_policy_names, pin
from spade.app.models.sources import open_source
from spade.app.rundir import RunDir
from spade.app.supervisor.beginning import OldRun, begin
from spade.app.supervisor.kept import find_kept_best, list_kept_policies
from spade.config import load
from spade.errors import SpadeError
from spade.transport import keys
from tests.replay.kept_world import SETTINGS, keep_world
from tests.unreadable import unreadable


def read_holders(path):
    return RunDir(path).holders()


READERS = [
    ("policies", lambda run: list_policy_names(run, "every:1")),
    ("policies", lambda run: pin(run, "nano", "float32", "step:1", run.path / "evaluations")),
    ("policies", lambda run: begin(RunDir(run.path.with_name("new")), "nano", (), OldRun(run, 1))),
    ("policies/step-1", list_kept_policies),
    ("checkpoints", list_kept_policies),
    ("checkpoints", lambda run: checkpoint.find_newest(run.checkpoints)),
    ("best", find_kept_best),
    ("evaluations/weights", lambda run: pin(run, "nano", "float32", "0" * 32, run.path / "evaluations")),
    ("policies", lambda run: read_holders(run.path / "policies")),
    ("allowed", lambda run: keys.read_allowed(run.path)),
    ("policies", lambda run: read_held_out(load("nano", (f"evaluation.suite=folder:{run.path}/policies",)))),
    ("policies", lambda run: open_source(f"{run.path}/policies").__enter__()),
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    made = RunDir(tmp_path_factory.mktemp("unreadable") / "run")
    made.create(SETTINGS)
    keep_world(made.store, 1, 1.0)
    return made


@pytest.mark.parametrize(("name", "read"), READERS)
def test_a_folder_that_may_not_be_read_is_not_called_empty(run, name, read):
    folder = run.path / name
    folder.mkdir(parents=True, exist_ok=True)
    with unreadable(folder), pytest.raises(SpadeError, match=f"{folder}.*: Permission denied"):
        read(run)
