"""SPADE from Python: what it reads is what the commands read, and what it starts is never lost."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import msgspec
import numpy as np
import pyarrow
import pytest

import spade
from replay.inspect.environments import read_environment, read_environments
from replay.inspect.journal import StepRow
from replay.ledger.records import PlayRecord
from replay.store import open_reader, open_store
from spade import extras
from spade.app.door import FigureTable, StartedRun
from spade.app.door.command import Command
from spade.app.rundir import RunDir
from spade.config import load
from spade.errors import ConfigError, RunError
from spade.protocol import SkillFigures, Trajectory
from tests.peers import FEWEST
from tests.replay.kept_world import keep_world


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with environments and plays, and the tokens of one play deleted."""
    made = RunDir(tmp_path_factory.mktemp("runs") / "run")
    made.create(load("nano"))
    keep_world(made.store)
    with open_store(made.store, "nosync") as store:
        first = next(play.id for play in store.scan("plays", PlayRecord) if play.state == "finished")
        store.commit(store.encode([("trajectories", first, None)]))
    return spade.open_run(made.path)


def test_import_spade_stays_light():
    code = "import spade, sys; print({'numpy', 'msgspec', 'trio', 'torch', 'spade.app'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
    with pytest.raises(AttributeError, match="'spade' has no attribute 'close_run'"):
        spade.close_run  # noqa: B018


def test_environments_have_their_programs(run):
    store = run.path / "store"
    assert [each.id for each in run.environments] == [each.id for each in read_environments(store)]
    assert run.environments[3] == read_environment(store, run.environments[3].id)
    assert run.environments[3].hint == "pull the second lever"


def test_plays_have_their_tokens(run):
    plays = {play.id: play for play in run.plays()}
    with open_reader(run.path / "store") as store:
        finished = [play for play in store.scan("plays", PlayRecord) if play.state == "finished"]
        kept = {play.id: store.get("trajectories", play.id, Trajectory) for play in finished}
    assert list(plays) == list(kept)
    (deleted,) = (id for id, trajectory in kept.items() if trajectory is None)
    assert [len(array) for array in plays[deleted][-4:]] == [0, 0, 0, 0]
    for id, trajectory in kept.items():
        if trajectory is not None:
            play = plays[id]
            assert play.tokens.tobytes() == trajectory.ids
            assert play.logprobs.tobytes() == trajectory.logprobs
            assert (len(play.sampled), play.sampled.sum()) == (trajectory.tokens, trajectory.sampled)
            assert set(play.versions) == {version for version, _ in trajectory.versions}
            assert len(play.versions) == trajectory.sampled
            assert np.shares_memory(play.tokens, np.frombuffer(play.tokens.base, np.uint8)), "a view, not a copy"


def test_threads_may_read_at_once(run):
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: (len(run.plays()), len(run.environments)), range(16)))
    assert found == [(len(run.plays()), len(run.environments))] * 16


@pytest.mark.parametrize("wanted", [
    {"won": True}, {"won": False}, {"hinted": True}, {"skill": "optimization"}, {"environment": "e000002"},
    {"won": True, "hinted": False, "skill": "optimization"},
])  # fmt: skip
def test_plays_are_chosen(run, wanted):
    every = run.plays()
    fit = [play.id for play in every if all(getattr(play, name) == value for name, value in wanted.items())]
    assert 0 < len(fit) < len(every)
    assert [play.id for play in run.plays(**wanted)] == fit
    assert {play.won for play in every if play.episode_return == 1} == {True}


def test_metrics_are_columns(run):
    rows = [
        StepRow(learner_step=1, win_rate_unhinted=0.5, skills={"counting": SkillFigures(regret=0.25)}),
        StepRow(learner_step=2, loss=1.5),
    ]
    assert run.metrics == {}
    (run.path / "metrics.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, rows)))
    metrics = run.metrics
    assert metrics["learner_step"] == [1, 2]
    assert metrics["win_rate_unhinted"] == [0.5, None]
    assert metrics["skills/counting/regret"] == [0.25, None]
    assert pyarrow.table(metrics).num_rows == 2
    assert run.journal.steps == tuple(rows)


def test_a_missing_pandas_is_one_line(monkeypatch):
    monkeypatch.setattr(extras, "find_installed", lambda extra: None)
    with pytest.raises(ConfigError, match=r"^pandas: pandas>=2\.2 is supported, it .*not installed; pip install .*$"):
        FigureTable().to_pandas()


@pytest.mark.parametrize(("call", "says"), [
    (lambda: spade.open_run("nothing"), "no run here"),
    (lambda: spade.start("nano", run="new", settings={"learner.lrr": 1}), "unknown setting learner.lrr"),
    (lambda: spade.evaluate("nano", "chess"), "'chess': unknown suite"),
    (lambda: spade.start("--help"), "no config '--help'"),
    (lambda: spade.evaluate("--help", "gem"), "--help: "),
])  # fmt: skip
def test_a_failure_is_the_line_of_the_command(tmp_path, monkeypatch, call, says):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError, match=says) as failure:
        call()
    assert "\n" not in str(failure.value)
    assert not str(failure.value).startswith("spade:")


@pytest.mark.parametrize(("command", "raised", "note"), [
    (("config ls",), True, "{run}: the run was stopped; `spade up --run {run}` resumes it"),
    (("config show", "nowhere"), True, "the run failed, too: no config 'nowhere'"),
    (("config show", "nowhere"), False, None),
])  # fmt: skip
def test_an_error_of_the_block_is_raised_and_says_what_became_of_the_run(run, command, raised, note):
    def use(started):
        with started:
            started._command.wait()
            if raised:
                raise KeyError

    with pytest.raises(KeyError if raised else RunError) as failure:
        use(StartedRun(RunDir(run.path), Command(*command)))
    if note:
        (told,) = failure.value.__notes__
        assert told.startswith(note.format(run=run.path))
    else:
        assert str(failure.value).startswith("no config 'nowhere'")


def test_a_run_of_the_block_is_live_and_drained_at_its_end(tmp_path):
    with spade.start("nano", run=tmp_path / "run", settings={"run.seed": 7, **FEWEST}) as run:
        assert run.up
        assert run.config.run.seed == 7
        assert run.status.run
        with pytest.raises(RunError, match=r"is still up after 0\.1 s"):
            run.wait(0.1)
    assert not run.up
    assert RunDir(run.path).holders() == {}
    assert [event.event for event in run.journal.events] == ["start", "stop"]


def test_a_run_does_not_outlive_a_starter_that_is_killed(tmp_path):
    start = f"spade.start('nano', run='run', settings={FEWEST})"
    # A forked child, such as a worker of a data loader, holds the starter's pipe, too.
    code = f"import os, spade, time; run = {start}; pid = os.fork(); pid and print(pid, flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as starter:
        child = int(starter.stdout.readline())
        run = RunDir(tmp_path / "run")
        assert run.holders()
        starter.send_signal(signal.SIGKILL)
    try:
        deadline = time.monotonic() + 120
        while run.holders() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert run.holders() == {}
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_forked_child_does_not_keep_a_command_up(run):
    command = Command("web", str(run.path), port=0)
    child = os.fork()
    if not child:
        time.sleep(600)
        os._exit(0)
    try:
        time.sleep(0.5)
        command.stop()
        assert command.wait(60) is None
        command.stop()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_run_that_has_just_started_has_no_environments_and_plays(tmp_path):
    made = RunDir(tmp_path / "run")
    made.create(load("nano"))
    run = spade.open_run(made.path)
    with pytest.raises(RunError, match="no store can be read here"):
        run.environments  # noqa: B018
    with made.lock("replay"):
        assert (run.environments, run.plays()) == ([], [])
