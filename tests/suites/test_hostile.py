"""The hostile programs in the zygote that has loaded all libraries."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.test_hostile import holds

ROOT = Path(__file__).parents[2]


def test_the_larger_world_of_the_libraries_is_contained():
    tier = "landlock"
    if holds(tier):
        pytest.skip(holds(tier))
    command = [sys.executable, "-P", "-B", "-m", "tests.hostile.suite", tier, "--libraries"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd="/")
    assert (done.stdout.splitlines()[:-1], done.returncode) == ([], 0), done.stdout + done.stderr
