"""Killed at any instant, a learner resumes to the parameters of one that never was, bit for bit."""

import json
import subprocess
import sys

import pytest

from tests.learner.killed_learner import STEPS


@pytest.mark.slow
def test_sigkill_at_any_instant_changes_no_bit(checkpoint_folder, tmp_path):
    command = [sys.executable, "-m", "tests.learner.killed_learner", str(checkpoint_folder), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["kills"] >= 1
    assert told["random"] == told["straight"]
    # Up to some touch it goes on from the checkpoint before, from there on from the new one, and from nothing else.
    steps, digests = told["steps"], told["digests"]
    assert steps == sorted(steps)
    assert min(steps.count(STEPS - 1), steps.count(STEPS)) > 5
    assert len(set(digests[: steps.count(STEPS - 1)])) == 1
    assert set(digests[steps.count(STEPS - 1) :]) == {told["straight"]}
    assert max(told["drafts"]) >= 1  # some were killed with a checkpoint half-written
    assert told["drafts"][-1] == 0
