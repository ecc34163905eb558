"""A live run is scaled and drained by command: nobody else restarts, nothing is lost, engines included."""

import os
import signal
import subprocess
import sys

import pytest
import trio

from spade.app.rundir import RunDir
from spade.app.screen.observe import read_status
from spade.app.screen.reach import reach
from tests.e2e.test_up import SOON_S, Up, left_behind, role

pytestmark = pytest.mark.slow  # ten processes and as many commands: more than a minute


def spade(*words):
    command = [sys.executable, "-m", "spade.app.cli", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=SOON_S)


def ready(status):
    return {process.name: process.pid for process in status.processes if process.state == "ready"}


def test_actors_come_and_go_by_command(tmp_path):
    run = tmp_path / "run"
    up = Up(run, "bus.silence_s=30.0")  # nobody is killed whom the service would have to miss
    try:
        before = ready(up.until(lambda s: s.learner_step >= 1 and len(ready(s)) == 6, within_s=SOON_S))
        scaled = spade("actors", "scale", run, "agents=3", "designers=2", "engines=2")
        assert scaled.returncode == 0, scaled.stderr
        status = up.until(lambda s: len(ready(s)) == 10, within_s=SOON_S)
        assert before.items() <= ready(status).items()
        assert {"agent-1", "agent-2", "designer-1", "engine-1"} == ready(status).keys() - before.keys()

        # The counts are the supervisor's: a service that begins anew is told them.
        os.kill(role(status, "replay").pid, signal.SIGKILL)
        status = up.until(lambda s: any(w.get("agent") == 3 for w in s.wanted.values()) and len(ready(s)) == 10, SOON_S)
        drained = spade("actors", "drain", run, "agent-1")
        assert (drained.returncode, drained.stdout) == (0, "agent-1: left in order\n"), drained.stderr
        assert "agents=2, designers=2, curators=0, runners=1, engines=2" in spade("actors", "ls", run).stdout
        refused = spade("actors", "drain", run, "learner")
        assert refused.returncode == 1
        assert "no actor 'learner'; there are" in refused.stderr
        scaled = spade("actors", "scale", run, "agents=1", "designers=1")
        assert scaled.returncode == 0, scaled.stderr
        # What the first engine was sampling is sampled by the other.
        drained = spade("actors", "drain", run, "engine-0")
        assert (drained.returncode, drained.stdout) == (0, "engine-0: left in order\n"), drained.stderr
        told = spade("why", run)
        assert told.returncode == 0, told.stderr
        assert " waits " in told.stdout

        status = trio.run(read_status, reach(RunDir(run)))
        step, plays = status.learner_step, status.counts.plays
        status = up.until(
            lambda s: s.learner_step > step + 1 and s.counts.plays > plays and len(ready(s)) == 6, within_s=SOON_S
        )
        after = ready(status)
        assert {name for name, pid in before.items() if after.get(name) != pid} == {"replay", "engine-0"}
        assert [process.restarts for process in status.processes if process.role != "replay"] == [0] * 9
        drained = spade("actors", "drain", run, "engine-1")
        assert drained.stdout.startswith("engine-1: left in order; no engine is left; `spade actors scale "), drained
        up.stop(signal.SIGINT)
    finally:
        up.kill()
    assert not left_behind(run, status)
    verified = spade("replay", "verify", run)
    assert verified.returncode == 0, verified.stdout + verified.stderr
