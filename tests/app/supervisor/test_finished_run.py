"""A resume of a run that is at its end."""

import json
import subprocess
import sys

from replay.ledger.records import Clock
from replay.store import open_store
from replay.store.load import open_run
from spade.app.rundir import RunDir
from spade.config import load
from tests.peers import FEWEST


def test_a_finished_run_says_so_and_starts_nothing(tmp_path):
    run = RunDir(tmp_path / "run")
    settings = load("nano", ("limits.seconds=3",))
    run.create(settings)
    with open_store(run.store, "nosync") as store:
        open_run(store, settings)
        store.commit(store.encode([("meta", "clock", Clock(5.0))]))
    command = [sys.executable, "-m", "spade.app.cli"]
    done = subprocess.run([*command, "up", "--run", str(run.path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert f"finished: it was up for 5 s (limits.seconds = 3); `spade up --run {run.path}` with a larger" in done.stdout
    assert [log.name for log in sorted(run.logs.iterdir())] == ["replay.log", "supervisor.log"]
    events = [json.loads(row) for row in (run.path / "metrics.jsonl").read_text().splitlines()]
    assert [(event["event"], event["why"]) for event in events] == [
        ("resume", ""), ("finish", "it was up for 5 s (limits.seconds = 3)"), ("stop", ""),
    ]  # fmt: skip
    shown = subprocess.run([*command, "status", str(run.path)], capture_output=True, text=True, timeout=120)
    assert "finished: it was up for 5 s (limits.seconds = 3)\n" in shown.stdout


def test_the_time_of_a_command_counts_from_its_start_and_is_not_kept(tmp_path):
    run = RunDir(tmp_path / "run")
    settings = load("nano", tuple(f"{name}={value}" for name, value in FEWEST.items()))
    run.create(settings)
    with open_store(run.store, "nosync") as store:
        open_run(store, settings)
        store.commit(store.encode([("meta", "clock", Clock(1_175.0))]))
    command = [sys.executable, "-m", "spade.app.cli", "up", "--headless", "--run", str(run.path), "--for", "1s"]
    for number in (1, 2):
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        assert f"finished: its last start was up for 1 s (--for 1); `spade up --run {run.path}` goes on" in done.stdout
        rows = [json.loads(row) for row in (run.path / "metrics.jsonl").read_text().splitlines()]
        resumed = [row["elapsed_s"] for row in rows if row["event"] == "resume"]
        finished = [row["elapsed_s"] for row in rows if row["event"] == "finish"]
        assert len(resumed) == len(finished) == number
        assert finished[-1] - resumed[-1] >= 1.0
    assert run.config().limits == settings.limits
