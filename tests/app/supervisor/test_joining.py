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


def test_actors_do_not_take_the_directory_of_a_run_for_their_logs(spade, tmp_path):
    run = RunDir(tmp_path / "run")
    with run.lock("replay"):
        run.create(load("nano", ("actors.agents=3",)))
    done = spade("actors", "up", "--connect", run.replay_address, "--agents", "1", "--run", str(run.path), *WAITS)
    told = f"spade: {run.path}: is the directory of a run; --run names a folder for the logs of these actors\n"
    assert (done.returncode, done.stderr) == (1, told)
    assert run.config() == load("nano", ("actors.agents=3",))
