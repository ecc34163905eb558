"""`spade up` with real processes: self-play runs, survives SIGKILL of its actors, drains, resumes.

The run keeps policies, and `spade eval --policy every:N` makes the curve of them.
"""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
import trio

from replay.inspect.contents import read_contents
from replay.inspect.verify import find_problems
from replay.store import open_reader
from spade.app.rundir import RunDir
from spade.app.screen.observe import read_status
from spade.app.screen.reach import reach
from spade.errors import SpadeError
from spade.policy import kept, manifest
from spade.protocol import Status

SOON_S = 600.0  # a busy machine takes long to start and to play
SMALL = (
    "design.active_environments=6", "design.round_jobs=3", "play.group_size=4", "play.window_chunks=1",
    "learner.batch_sequences=16", "learner.checkpoint_every=2", "bus.silence_s=3.0", "supervise.drain_s=60.0",
    "evaluation.suite=",
    "evaluation.diversity_programs=0",
)  # fmt: skip
KEEPS = "learner.keep_policy_every=1"


class Up:
    """A `spade up --headless` (or other `words`) in the background, followed through its status."""

    def __init__(self, run: Path, *more: str, words: tuple[str, ...] = ("up", "--headless")) -> None:
        self.run = run
        settings = [word for setting in (*SMALL, *more) for word in ("--set", setting)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "spade.app.cli", *words, "--run", str(run), *settings],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def until(self, reached, within_s):
        """The first status for which `reached` holds."""
        deadline = time.monotonic() + within_s
        status = Status()
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.process.communicate()[0]
            try:
                status = trio.run(read_status, reach(RunDir(self.run)))
            except SpadeError:
                status = Status()  # not up yet
            if reached(status):
                return status
            time.sleep(0.3)  # a look is a process of its own to the run: it connects anew
        raise AssertionError(f"not reached within {within_s} s: {status}")

    def stop(self, number):
        self.process.send_signal(number)
        output = self.process.communicate(timeout=SOON_S)[0]
        assert self.process.returncode == (130 if number == signal.SIGINT else 0), output
        assert "Traceback" not in output
        return output

    def kill(self):
        """For a test that failed; the children see their supervisor gone."""
        self.process.kill()
        self.process.communicate()


def left_behind(run: Path, status: Status) -> list[str]:
    """The run's processes that still live; another's may have the number of one that does not."""
    found = []
    for process in status.processes:
        with suppress(FileNotFoundError, ProcessLookupError):
            if os.fsencode(run.resolve()) in Path(f"/proc/{process.pid}/cmdline").read_bytes():
                found.append(process.name)
    return found


def role(status: Status, name: str):
    return next((process for process in status.processes if process.role == name), None)


class Lived(NamedTuple):
    """A run that lost its evaluator, was drained and resumed, and what was seen of it."""

    run: Path
    output: str
    """Of the first command."""
    drained: Status
    """Of the processes of the first command, in the end."""
    down: Status
    """Between the two commands."""
    resumed: Status
    """Of the second command, after a step."""
    top: subprocess.CompletedProcess
    """A look at the second command."""


@pytest.fixture(scope="module")
def lived(tmp_path_factory) -> Lived:
    """A slow test, `tests/chaos/test_kill.py`, kills every role; here it is the one on which no other waits."""
    run = tmp_path_factory.mktemp("lived") / "run"
    up = Up(run, KEEPS, "evaluation.suite=nano", "evaluation.plays=8", "evaluation.every_steps=1")
    try:
        killed = up.until(lambda s: s.learner_step >= 1 and len(s.processes) == 7, within_s=SOON_S)
        os.kill(role(killed, "evaluator").pid, signal.SIGKILL)
        drained = up.until(
            lambda s: (
                left_behind(run, s)
                and s.learner_step > killed.learner_step
                and (role(s, "evaluator").restarts, role(s, "evaluator").state) == (1, "ready")
                and s.histories.evaluations[len(killed.histories.evaluations) :]
            ),
            within_s=SOON_S,
        )
        output = up.stop(signal.SIGINT)
    finally:
        up.kill()
    assert not left_behind(run, drained)

    down = trio.run(read_status, reach(RunDir(run)))
    again = Up(run, KEEPS)
    try:
        again.until(lambda s: any(process.state == "ready" for process in s.processes), within_s=SOON_S)
        top = subprocess.Popen(
            [sys.executable, "-m", "spade.app.cli", "top", str(run)], stdout=subprocess.PIPE, text=True
        )
        first = top.stdout.readline()
        resumed = again.until(lambda s: s.learner_step > down.learner_step, within_s=SOON_S)
        again.stop(signal.SIGTERM)
        seen = first + top.communicate(timeout=SOON_S)[0]
    finally:
        again.kill()
    assert not left_behind(run, resumed)
    return Lived(run, output, drained, down, resumed, subprocess.CompletedProcess(top.args, top.returncode, seen))


@pytest.mark.slow
def test_self_play_and_its_evaluations_go_on_after_a_kill(lived):
    assert (lived.run / "logs" / "supervisor.log").read_text().count("starting it again") == 1
    assert [process.restarts for process in lived.drained.processes if process.role != "evaluator"] == [0] * 6
    assert "step" in lived.output
    assert "\nheld-out win rate " in lived.output
    assert all(one.plays + one.voids == 8 for one in lived.drained.histories.evaluations)
    assert lived.down.learner_step >= lived.drained.learner_step


@pytest.mark.slow
def test_who_looks_on_is_told_of_the_end_and_goes(lived):
    first, *_ = lived.top.stdout.splitlines()
    assert "step" in first
    assert lived.top.returncode == 0
    assert lived.top.stdout.endswith(f"{lived.run}: stopped\n")


@pytest.mark.slow
def test_every_counter_of_a_run_that_resumes_goes_on_from_where_it_was(lived):
    down, status = lived.down, lived.resumed
    assert status.policy_version > down.policy_version
    assert status.counts.plays >= down.counts.plays
    assert status.counts.environments >= down.counts.environments
    assert status.memory >= down.memory
    assert status.histories.evaluations == down.histories.evaluations != ()
    with open_reader(lived.run / "store") as store:
        assert find_problems(read_contents(store)) == []


SHORT = ("--suite", "nano", "--protocol", "short", "--items", "3")


def spade(*words, fails=False):
    done = subprocess.run(
        [sys.executable, "-m", "spade.app.cli", *words], capture_output=True, text=True, timeout=SOON_S
    )
    assert (done.returncode != 0) == fails, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr if fails else done.stdout


@pytest.mark.slow
def test_policies_that_are_kept_make_a_curve(lived):
    run = str(lived.run)
    assert "no problems" in spade("replay", "verify", run)
    last = max(step for step, _ in kept.list_by_step(lived.run / kept.FOLDER))
    every = last // 2
    steps = list(range(every, last + 1, every))
    assert len(steps) >= 2

    told = json.loads(spade("eval", run, *SHORT, "--policy", f"every:{every}", "--json"))
    assert [(one["step"], one["policy"]) for one in told] == [(step, f"step {step}") for step in steps]
    assert len({one["rules"]["policy"] for one in told}) == len(steps)
    assert {one["against"]["policy"] for one in told} == {"start"}
    assert all(one["difference"]["items"] == 3 for one in told)

    records = Path(told[0]["folder"]) / "records.jsonl"
    lines = records.read_bytes().splitlines(keepends=True)
    records.write_bytes(b"".join(lines[:-1]))  # a kill has cut the last record
    shown = spade("eval", run, *SHORT, "--policy", f"every:{every}").splitlines()
    title, header, *rows = shown[-3 - len(steps) :]
    assert (title, header.split()[-3:]) == ("nano@short, 3 items × 1", ["paired", "by", "item"])
    assert [row[:9].strip() for row in rows] == ["start", *(f"step {step}" for step in steps)]
    means = [round(one["summary"]["headline"]["mean"], 3) for one in told]
    assert [float(row.split()[2]) for row in rows[1:]] == means
    assert len(records.read_bytes().splitlines()) == 3

    for step in steps:
        damage(lived.run / kept.FOLDER / f"step-{step}")
    assert spade("replay", "verify", run, fails=True).count("was changed or cut short") == len(steps)


def damage(folder):
    """Change the last byte of the parameters, in this folder alone."""
    data = (folder / manifest.PARAMETERS).read_bytes()
    (folder / manifest.PARAMETERS).unlink()
    (folder / manifest.PARAMETERS).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def test_a_second_signal_does_not_break_off_the_drain(tmp_path):
    up = Up(tmp_path / "run", "supervise.drain_s=120.0", words=("replay", "up"))
    try:
        status = up.until(lambda s: any(process.state == "ready" for process in s.processes), within_s=SOON_S)
        replay = role(status, "replay").pid
        os.kill(replay, signal.SIGSTOP)  # so that the drain lasts until we have seen it
        wait_until(lambda: told(replay, "State").startswith("T"))
        up.process.send_signal(signal.SIGINT)
        wait_until(lambda: int(told(replay, "ShdPnd"), 16) >> (signal.SIGTERM - 1) & 1)
        up.process.send_signal(signal.SIGTERM)
        up.process.send_signal(signal.SIGINT)
        os.kill(replay, signal.SIGCONT)
        output = up.process.communicate(timeout=SOON_S)[0]
    finally:
        up.kill()
    assert up.process.returncode == 130, output
    assert output.endswith("stopped\n")


def told(pid: int, name: str) -> str:
    """A field of a process's status in /proc; ShdPnd is the mask of signals it has not taken yet."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line for line in lines if line.startswith(name)).split()[1]


def wait_until(holds, within_s=SOON_S):
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, f"not reached within {within_s} s"
        time.sleep(0.3)  # some conditions read a whole store, others are a process of their own to the run


def test_a_run_without_a_policy_is_not_told_to_measure_one(tmp_path):
    up = Up(tmp_path / "run", "design.active_environments=1", words=("up", "--headless", "--for", "1s"))
    try:
        told = up.process.communicate(timeout=SOON_S)[0]
    finally:
        up.kill()
    assert up.process.returncode == 0, told
    assert "its last start was up for" in told
    assert "nano report" not in told
