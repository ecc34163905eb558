"""A pool that the nano model makes, and a run that plays it, with real processes killed on the way."""

import signal
import subprocess
import sys
import time

import pytest

from replay.inspect.contents import read_contents
from replay.inspect.verify import find_problems
from replay.store import open_reader
from spade.pools import read_list
from tests.e2e.test_up import SOON_S, Up

pytestmark = pytest.mark.slow
MADE = 8


def make(pool):
    words = ("pool", "make", "nano", "--count", str(MADE), "-o", str(pool))
    return subprocess.Popen([sys.executable, "-m", "spade.app.cli", *words], stdout=subprocess.PIPE, text=True)


def programs(run):
    """The programs of the jobs so far, in their order."""
    with open_reader(run / "store") as store:
        found = read_contents(store)
    assert find_problems(found) == []
    return [job.program for job in sorted(found.jobs.values(), key=lambda job: job.number)]


def test_a_pool_is_made_played_and_gone_on_with_through_kills(tmp_path):
    pool, run = tmp_path / "pool", tmp_path / "run"
    first = make(pool)
    deadline = time.monotonic() + SOON_S
    while not any(pool.glob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.1)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    made = {entry.name for entry in read_list(pool).entries}
    again = make(pool)
    assert f"{MADE} programs" in again.communicate(timeout=SOON_S)[0]
    assert again.returncode == 0
    names = {entry.name for entry in read_list(pool).entries}
    assert len(names) == MADE
    assert made <= names

    up = Up(run, "design.source=pool", f"pool.source=folder:{pool}")
    try:
        status = up.until(lambda s: s.learner_step >= 2, within_s=SOON_S)
        assert {process.role for process in status.processes} == {
            "replay", "engine", "env-runner", "learner", "curator", "agent",
        }  # fmt: skip
        assert (status.recent.regret, status.recent.win_rate_hinted) == (None, None)
        assert (status.pool.pool_programs, status.pool.pool_rejected) == (MADE, 0)
    finally:
        up.kill()
    time.sleep(1.0)  # the children see their supervisor gone
    before = programs(run)
    again = Up(run, "design.source=pool", f"pool.source=folder:{pool}")
    try:
        again.until(lambda s: s.learner_step > status.learner_step + 2, within_s=SOON_S)
        again.stop(signal.SIGINT)
    finally:
        again.kill()
    after = programs(run)
    assert after[: len(before)] == before
    assert len(after) > len(before)
    assert set(after[:MADE]) == names
