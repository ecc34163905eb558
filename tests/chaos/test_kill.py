"""The short version of the chaos test: every role of a real nano run is killed once, then all is checked."""

import json
import subprocess
import sys

import pytest

from tests.chaos.kill import ROLES

SETTLED_S = 900


@pytest.mark.slow
def test_a_run_whose_every_role_is_killed_loses_nothing_acknowledged(tmp_path):
    command = [sys.executable, "-m", "tests.chaos.kill", "--each", "--every", "0.5", "--out", str(tmp_path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SETTLED_S)
    assert done.returncode == 0, done.stdout
    found = json.loads((tmp_path / "kill.json").read_text())
    assert found["wrong"] == []
    assert {role: met["kills"] for role, met in found["by_role"].items()} == dict.fromkeys(ROLES, 1)
    assert found["total"]["plays"] > 0
