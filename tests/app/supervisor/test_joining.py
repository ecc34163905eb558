"""A command that joins a run tells at once that nothing answers, and waits for the run all the same."""

import pytest

from spade.app.rundir import RunDir
from spade.config import load

WAITS = ("--set", "bus.call_deadline_s=1.5")


@pytest.mark.parametrize("part", ["learner", "actors"])
def test_a_command_that_joins_a_stopped_run_says_so_before_it_gives_up(spade, tmp_path, part):
    run = RunDir(tmp_path / "run")
    run.create(load("nano"))
    joins = {
        "learner": ("learner", "up", run.path),
        "actors": ("actors", "up", "--connect", run.replay_address, "--agents", "1", "--run", tmp_path / "logs"),
    }
    remedy = {
        "learner": f"{run.path}: no answer yet; if nothing is up, `spade replay up --run {run.path}` starts the run",
        "actors": f"{run.replay_address}: no answer yet; is the run up, and is this the `replay` in its run.json?",
    }
    done = spade(*map(str, joins[part]), *WAITS)
    told, gave_up = done.stderr.splitlines()
    assert told == f"{remedy[part]} (waiting up to 1.5 s)"
    assert gave_up == f"spade: {run.replay_address}: no answer within 1.5 s; is the service running?"
    assert done.returncode == 1
