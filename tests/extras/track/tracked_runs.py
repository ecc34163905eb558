"""Runs with a journal of their own, and real trackers that are killed while the journal grows."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

from spade.app.rundir import RunDir
from spade.config import load

SOON_S = 120.0  # a busy machine takes long to start a tracker


def journal(steps, first=0):
    """Rows as a run writes them: an event, then learner steps, with an evaluation after every fourth."""
    yield {"time": 1e9 + first, "kind": "event", "event": "resume" if first else "start", "elapsed_s": 0.5, "why": ""}
    for step in range(first + 1, first + steps + 1):
        yield {
            "time": 1e9 + step, "kind": "step", "learner_step": step, "plays": 16 * step, "regret": None,
            "loss": 1 / step,
            "skills": {"logic": ["SkillFigures", 0.5, None, step / 100, 0.25]}, "finished": "",
            "process_gauges": {"engine-0": {"queue": step % 3}},
        }  # fmt: skip
        if step % 4 == 0:
            yield {
                "time": 1e9 + step,
                "kind": "evaluation",
                "step": step,
                "win_rate": 0.25,
                "suite": "nano",
                "plays": 64,
            }


def new_run(folder):
    """Make the directory of a run."""
    run = RunDir(folder)
    run.create(load("nano"))
    return run


def append(run, rows):
    """Append rows to the run's journal. The system gets them in pieces, as from a slow disk."""
    data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    with run.metrics_path.open("ab", buffering=0) as file:
        for start in range(0, len(data), 97):
            file.write(data[start : start + 97])


@contextmanager
def track(run, kind, *more):
    """A `spade track` in the background."""
    command = [sys.executable, "-m", "spade.app.cli", "track", str(run.path), "--to", kind, *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def track_and_kill(run, kind, seed, lives=4, steps=12):
    """Track a run that is up. The tracker is killed at random times while rows come. The last one ends with the run."""
    random.seed(seed)
    for life in range(lives):
        with run.lock("replay"), track(run, kind) as process:
            assert any(str(run.path) in line for line in process.stdout)  # some tools say something first
            for row in journal(steps, first=life * steps):
                append(run, [row])
                time.sleep(random.random() * 0.1)
            os.kill(process.pid, signal.SIGKILL)
            process.wait(SOON_S)
    with track(run, kind) as process:
        said = process.communicate(timeout=SOON_S)[0]
        assert process.returncode == 0, said
    return said


def rows_of(run):
    """The rows of the journal."""
    return [json.loads(line) for line in run.metrics_path.read_text().splitlines()]
