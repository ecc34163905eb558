"""A tracker that may be killed between any two of its actions: its sink has each record of the journal once."""

import errno
import json
import os
import signal
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from spade.app.report.arms import list_arm_settings
from spade.app.rundir import RunDir
from spade.app.supervisor import launches
from spade.app.track import process, tracker
from spade.app.track.sink import SinkPlace, choose_mode
from spade.config import TRACKER_KINDS, TrackerChoice, dump, load
from spade.errors import ConfigError, RunError
from spade.processes.entry import Launch

KIND = "tensorboard"  # whose place the sink of these tests takes


class KilledError(Exception):
    """The tracker's process is killed."""


class LineSink:
    """Appends the numbers and steps of records to a file. It cuts off what it wrote after its last commit."""

    shown = "nowhere"

    def __init__(self, place, clock):
        place.folder.mkdir(exist_ok=True)
        self.file = (place.folder / "lines").open("ab")
        self.file.truncate(place.memory.get("bytes", 0))
        self.clock = clock

    def write(self, record):
        self.clock()
        self.file.write(b"%d %d\n" % (record.number, record.step))
        self.file.flush()

    def commit(self):
        self.clock()
        return {"bytes": self.file.seek(0, 2)}

    def close(self):
        self.file.close()


@contextmanager
def sinks(clock=lambda: None):
    """Put LineSink in the place of a kind. `clock` is called before each action that changes a file."""

    @contextmanager
    def open_sink(kind, place):
        sink = LineSink(place, clock)
        try:
            yield sink
        finally:
            sink.close()

    def replace(file, data):
        clock()
        file.write_bytes(data)

    with mock.patch.object(tracker, "open_sink", open_sink), mock.patch.object(tracker, "replace", replace):
        yield


def append(run, steps):
    with run.metrics_path.open("ab") as file:
        for step in steps:
            file.write(json.dumps({"kind": "step", "time": 1.0, "learner_step": step}).encode() + b"\n")


def tracked(run):
    return [tuple(map(int, line.split())) for line in (run.path / "track" / KIND / "lines").read_text().splitlines()]


def opened(run):
    return tracker.tracker(run, TrackerChoice(KIND))


@pytest.fixture
def run(tmp_path):
    made = RunDir(tmp_path / "run")
    made.create(load("nano"))
    return made


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6)), max_size=8), st.integers(1, 200))
def test_a_tracker_that_is_killed_at_any_points_loses_and_repeats_nothing(lives, most_bytes):
    """Each life begins after so many new records, and is killed before its so manyth action."""
    with tempfile.TemporaryDirectory() as folder, mock.patch("spade.app.track.records.MOST_BYTES", most_bytes):
        run, steps = RunDir(Path(folder)), 0
        for new, actions in [*lives, (1, 1_000)]:
            append(run, range(steps, steps + new))
            steps += new
            left = iter(range(actions))

            def clock(left=left):
                if next(left, None) is None:
                    raise KilledError

            with suppress(KilledError), sinks(clock), opened(run) as tracking:
                while tracking.advance():
                    pass
        assert tracked(run) == [(step + 1, step) for step in range(steps)]


def test_a_full_disk_names_the_folder_of_the_sink(run):
    class FullSink(LineSink):
        def commit(self):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    append(run, [1])
    full = mock.patch(f"{__name__}.LineSink", FullSink)
    with sinks(), full, opened(run) as tracking, pytest.raises(OSError, match="No space left") as refused:
        tracking.advance()
    assert refused.value.filename == str(run.path / "track" / KIND)


def test_a_tool_gets_one_id_of_a_run_also_after_a_kill_at_the_start(run):
    ids = []

    @contextmanager
    def open_sink(kind, place):
        ids.append(place.id)
        raise KilledError
        yield

    with mock.patch.object(tracker, "open_sink", open_sink):
        for _ in range(2):
            with pytest.raises(KilledError):
                opened(run).__enter__()
    assert len(ids[0]) == 16
    assert ids[0] == ids[1]


def test_a_run_has_one_tracker_of_a_kind(run):
    with sinks(), opened(run), pytest.raises(RunError, match=r"tracker of tensorboard already \(pid \d+\)"):
        opened(run).__enter__()
    assert run.holders() == {}  # a tracker is no part of the run


@pytest.mark.parametrize("state", ["{", '{"position": {"bytes": -1}}', '{"memory": {"bytes": "many"}}', '{"id": "\'"}'])
def test_a_damaged_state_is_refused_with_what_to_do(run, state):
    with sinks(), opened(run):
        pass
    (run.path / "track" / f"{KIND}.json").write_text(state)
    with (
        sinks(),
        pytest.raises(RunError, match=r"tensorboard\.json: is damaged .*; delete it and .*/track/tensorboard"),
    ):
        opened(run).__enter__()


def test_lines_that_are_not_records_are_left_out_with_a_warning(run, caplog):
    append(run, [1])
    with run.metrics_path.open("ab") as file:
        file.write(b'{"kind":"st\n')
    append(run, [2])
    with sinks(), opened(run) as tracking:
        assert (tracking.advance(), tracking.advance(), tracking.tracked) == (True, False, 2)
    assert tracked(run) == [(1, 1), (3, 2)]
    assert "1 lines are not records and are left out" in caplog.text


async def test_the_process_of_a_run_tracks_its_last_rows_when_it_is_told_to_leave(run, autojump_clock):
    settings = load("nano", (f'track.to=["{KIND}"]',))
    run.config_path.write_text(dump(settings))
    orders = Launch(f"tracker-{KIND}", "tracker", str(run.config_path), str(run.path), "ipc:///nowhere")
    with sinks():
        async with trio.open_nursery() as nursery:
            ready = trio.Event()
            nursery.start_soon(process.run, orders, settings, ready.set)
            await ready.wait()  # before the run has a journal
            append(run, [1])
            await trio.sleep(tracker.POLL_S + 1)
            assert tracked(run) == [(1, 1)]
            append(run, [2])
            nursery.cancel_scope.cancel()
    assert tracked(run) == [(1, 1), (2, 2)]


async def test_a_tracker_of_a_run_that_is_down_ends_with_the_last_row(run):
    append(run, [1, 2])
    with sinks(), opened(run) as tracking:
        await tracker.follow(tracking, lambda: False)
    assert tracked(run) == [(1, 1), (2, 2)]


def test_ctrl_c_does_not_cut_a_batch(run):
    with sinks(), opened(run):
        pass  # the run has its id
    append(run, [1, 2])
    presses = iter([signal.SIGINT])  # during the first action

    def clock():
        for number in presses:
            signal.raise_signal(number)

    async def follow():
        with trio.fail_after(60):
            await tracker.follow(tracking, lambda: True)

    with sinks(clock), opened(run) as tracking:
        with pytest.raises(KeyboardInterrupt):
            trio.run(follow)
        assert tracking.tracked == 2
    assert tracked(run) == [(1, 1), (2, 2)]


def test_a_missing_package_is_one_line_with_what_to_install(run, monkeypatch):
    monkeypatch.setattr("spade.extras.find_installed", lambda extra: None)
    monkeypatch.setattr("spade.extras.get_requirement", lambda extra: f"{extra}>=2")
    advice = rf"{KIND}: {KIND}>=2 is supported, it is not installed; pip install -e '.\[{KIND}\]'"
    with pytest.raises(ConfigError, match=advice):
        opened(run).__enter__()
    with pytest.raises(ConfigError, match=advice):  # before anything of a run starts
        launches.trackers(run, load("nano", (f'track.to=["{KIND}"]',)))


def test_a_mode_in_which_a_tool_keeps_nothing_is_refused(monkeypatch):
    monkeypatch.delenv("SPADE_MODE", raising=False)
    assert choose_mode("SPADE_MODE") == ""
    monkeypatch.setenv("SPADE_MODE", "offline")
    assert choose_mode("SPADE_MODE") == "offline"
    monkeypatch.setenv("SPADE_MODE", "disabled")
    with pytest.raises(ConfigError, match="SPADE_MODE = disabled"):
        choose_mode("SPADE_MODE")


def test_settings_in_a_tool_have_no_folders_addresses_or_keys(tmp_path):
    run = RunDir(tmp_path / "run")
    run.create(load("nano", (f"model.path={tmp_path}/mine", 'sandbox.servers=["http://10.0.0.7:8000"]')))
    settings = SinkPlace(run, "a0", tmp_path, {}, 0).list_settings()
    assert settings["model.path"] == "mine"
    assert settings["learner.lr"] == run.config().learner.lr
    assert not any(word in str(settings) for word in (str(tmp_path), "10.0.0.7", "bus.", "serve.", "endpoint."))


def test_two_trackers_of_a_kind_are_refused():
    with pytest.raises(ConfigError, match=rf"track\.to: .*a tool twice: {KIND}, {KIND}"):
        load("nano", (f'track.to=["{KIND}", "{KIND}"]',))


def test_trackers_do_not_make_another_arm():
    assert list_arm_settings(load("nano", (f'track.to=["{KIND}"]',))) == list_arm_settings(load("nano"))


def test_the_command_refuses_unknown_kinds_and_runs_without_a_journal(run, spade):
    unknown = spade("track", str(run.path), "--to", "paper")
    assert (unknown.returncode, unknown.stderr) == (
        1, f"spade: --to 'paper': unknown tracker; take one of {', '.join(TRACKER_KINDS)}\n"
    )  # fmt: skip
    early = spade("track", str(run.path), "--to", KIND)
    assert (early.returncode, early.stderr.count("\n")) == (1, 1)
    assert "has no metrics.jsonl yet; `spade up --run" in early.stderr
