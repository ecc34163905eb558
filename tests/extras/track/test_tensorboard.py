"""A run in TensorBoard, read back with TensorBoard's own reader."""

import re

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from spade.app.track.tracker import tracker
from spade.config import TrackerChoice
from spade.errors import RunError
from tests.extras.track.tracked_runs import append, journal, new_run, rows_of, track_and_kill


def read_back(run):
    """All events of a run."""
    events = EventAccumulator(str(run.path / "track/tensorboard"), size_guidance={"scalars": 0, "tensors": 0})
    return events.Reload()


def equal(events, rows):
    """Compare all that TensorBoard has with the journal."""
    steps = [row for row in rows if row["kind"] == "step"]
    known = {
        "step/plays": [row["plays"] for row in steps], "step/loss": [row["loss"] for row in steps],
        "step/skills/logic/regret": [row["skills"]["logic"][3] for row in steps],
        "step/process_gauges/engine-0/queue": [row["process_gauges"]["engine-0"]["queue"] for row in steps],
    }  # fmt: skip
    for tag, values in known.items():
        scalars = events.Scalars(tag)
        assert [(one.step, one.wall_time) for one in scalars] == [(row["learner_step"], row["time"]) for row in steps]
        assert [one.value for one in scalars] == pytest.approx(values)
    assert "step/regret" not in events.Tags()["scalars"]
    evaluations = [(row["step"], row["win_rate"]) for row in rows if row["kind"] == "evaluation"]
    assert [(one.step, one.value) for one in events.Scalars("evaluation/win_rate")] == evaluations
    texts = [one.tensor_proto.string_val[0].decode() for one in events.Tensors("event")]
    assert texts == [row["event"] for row in rows if row["kind"] == "event"]


def test_a_tracker_that_is_killed_again_and_again_leaves_each_record_once(tmp_path):
    run = new_run(tmp_path / "run")
    said = track_and_kill(run, "tensorboard", seed=1)
    rows = rows_of(run)
    assert int(re.search(r"(\d+) lines of the journal in all", said)[1]) == len(rows)
    equal(read_back(run), rows)


def test_a_reader_that_saw_events_before_a_kill_sees_no_event_twice(tmp_path):
    run = new_run(tmp_path / "run")
    append(run, journal(3))
    with tracker(run, TrackerChoice("tensorboard")) as tracking:
        tracking.advance()
    state = run.path / "track/tensorboard.json"
    committed = state.read_bytes()
    append(run, journal(3, first=3))
    with tracker(run, TrackerChoice("tensorboard")) as tracking:
        tracking.advance()
    reader = read_back(run)
    state.write_bytes(committed)  # as if the tracker had been killed before it saved its state
    append(run, journal(3, first=6))
    with tracker(run, TrackerChoice("tensorboard")) as tracking:
        tracking.advance()
    equal(reader.Reload(), rows_of(run))
    equal(read_back(run), rows_of(run))


def test_events_that_were_deleted_are_not_tracked_again_unasked(tmp_path):
    run = new_run(tmp_path / "run")
    append(run, journal(4))
    with tracker(run, TrackerChoice("tensorboard")) as tracking:
        tracking.advance()
    (events,) = (run.path / "track/tensorboard").iterdir()
    events.unlink()
    with pytest.raises(RunError, match=r"lacks events; delete .*tensorboard\.json to track the run"):
        tracker(run, TrackerChoice("tensorboard")).__enter__()
    (run.path / "track/tensorboard.json").unlink()
    with tracker(run, TrackerChoice("tensorboard")) as tracking:
        tracking.advance()
    equal(read_back(run), rows_of(run))
