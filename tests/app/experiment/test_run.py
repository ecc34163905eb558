"""A small experiment, killed on its way and given again."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from replay.inspect.journal import read_journal
from spade.app.experiment.plan import Piece, read_experiment
from spade.app.experiment.results import read_results
from spade.app.rundir import RunDir

SOON_S = 600.0  # a busy machine takes long to start
TEXT = """\
steps = 4
suite = "nano"
protocol = "short"
reference = "full"
primary = [["full", "pool"]]
set = [
    "design.active_environments=6", "design.round_jobs=6", "play.group_size=4", "play.window_chunks=1",
    "learner.batch_sequences=16", "audit.random_plays=4", "evaluation.plays=12",
    "evaluation.every_steps=2", "evaluation.suite=nano@short", "evaluation.diversity_programs=0",
]

[arms.full]
recipe = "nano"
seeds = [0]

[arms.pool]
recipe = "nano-fixed-pool"
seeds = [0]
matched = "full"
pool = 6
"""


def start(folder: Path) -> Any:
    """The command, in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "spade.app.cli", "experiment", "run", "grid.toml", "-o", "out"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def learner_steps(run: Path) -> int:
    """Learner steps that a run has made."""
    try:
        rows = read_journal(run / "metrics.jsonl").steps
    except FileNotFoundError:
        return 0
    return rows[-1].learner_step if rows else 0


def begun(folder: Path, run: Path) -> Any:
    """The command, whose first run has made a learner step."""
    command, until = start(folder), time.monotonic() + SOON_S
    try:
        while not learner_steps(run):
            assert command.poll() is None, command.communicate()[0]
            assert time.monotonic() < until
            time.sleep(0.2)
    except BaseException:
        command.kill()
        raise
    return command


@pytest.mark.slow
@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
def test_an_experiment_that_is_told_to_end_leaves_no_process(tmp_path: Path, told: signal.Signals) -> None:
    (tmp_path / "grid.toml").write_text(TEXT)
    full = tmp_path / "out" / "runs" / "full-0"
    command = begun(tmp_path, full)
    command.send_signal(told)
    said, _ = command.communicate(timeout=SOON_S)
    assert (command.returncode, "Traceback" in said) == (130, False), said
    assert not RunDir(full).holders()


@pytest.mark.slow
def test_an_experiment_that_is_killed_goes_on_to_its_table(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(TEXT)
    full = tmp_path / "out" / "runs" / "full-0"
    killed = begun(tmp_path, full)
    killed.send_signal(signal.SIGKILL)
    killed.stdout.close()  # the processes that it has left have it open, too
    killed.wait()
    made = learner_steps(full)
    told, _ = start(tmp_path).communicate(timeout=2 * SOON_S)
    assert "finished: all 2 runs are there" in told, told
    plan = read_experiment(tmp_path / "grid.toml")
    results = read_results(tmp_path / "out" / "results", plan)
    full_run, pool_run = (results[Piece(name, 0)] for name in ("full", "pool"))
    assert full_run.steps == 4 >= made
    assert abs(pool_run.agent - full_run.agent) < 16
    assert pool_run.designer == 0 < full_run.designer
    assert not RunDir(full).holders()
    again, _ = start(tmp_path).communicate(timeout=SOON_S)
    assert "begins" not in again
