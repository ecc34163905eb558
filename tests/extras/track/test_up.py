"""A tracker that `spade up` keeps: it comes back when it is killed, and gets the last rows of the run."""

import os
import signal

from tests.e2e.test_up import SOON_S, Up
from tests.extras.track.test_tensorboard import read_back
from tests.extras.track.tracked_runs import RunDir, rows_of


def test_a_tracker_of_a_run_survives_a_kill_and_gets_the_last_row(tmp_path):
    run = RunDir(tmp_path / "run")
    up = Up(run.path, 'track.to=["tensorboard"]', words=("up", "--headless", "--steps", "2"))
    try:

        def tracker(status):
            return next((one for one in status.processes if one.role == "tracker"), None)

        status = up.until(lambda status: tracker(status) is not None and tracker(status).state == "ready", SOON_S)
        os.kill(tracker(status).pid, signal.SIGKILL)
        up.until(lambda status: (tracker(status).restarts, tracker(status).state) == (1, "ready"), SOON_S)
        output = up.process.communicate(timeout=SOON_S)[0]
        assert up.process.returncode == 0, output
    finally:
        up.kill()
    rows, events = rows_of(run), read_back(run)
    steps = [(row["learner_step"], row["plays"]) for row in rows if row["kind"] == "step"]
    assert len(steps) == 2
    assert [(one.step, one.value) for one in events.Scalars("step/plays")] == steps
    texts = [one.tensor_proto.string_val[0].decode().partition(":")[0] for one in events.Tensors("event")]
    assert texts == [row["event"] for row in rows if row["kind"] == "event"] == ["start", "finish", "stop"]
