"""Admission of library programs, by the command that a person uses."""

import subprocess
import sys

import pytest

from tests.suites.plays import program


@pytest.mark.parametrize(("library", "source"), [
    ("reasoning-gym", program("ReasoningGymEnv", dataset="chain_sum", parameters={"min_terms": 2, "max_terms": 2})),
    ("rlve", program("RlveEnv", problem="BezoutIdentity", level=1)),
])  # fmt: skip
def test_a_library_program_passes_every_stage(tmp_path, library, source):
    file = tmp_path / "given.py"
    file.write_text(source)
    command = [sys.executable, "-m", "spade.app.cli", "env", "check", str(file)]
    settings = ["--set", f'sandbox.libraries=["{library}"]', "--set", "sandbox.load_s=120"]  # however busy it is here
    done = subprocess.run([*command, *settings], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "solution" in done.stdout
