"""Shared by the tests of other libraries: the command line of the installed wheel, and a run that it made."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

import spade

COMMAND = (sys.executable, "-P", "-m", "spade.app.cli")

assert "site-packages" in spade.__file__, "make test-interop runs these tests, with the wheel"
os.environ["PYTHONPATH"] = ""  # no process of these tests finds the sources


@pytest.fixture(scope="session")
def run_spade():
    """Run a command line of spade in a folder. Return its exit code and what it printed."""

    def call(*words, cwd):
        done = subprocess.run([*COMMAND, *map(str, words)], cwd=cwd, capture_output=True, text=True, timeout=300)
        return done.returncode, done.stdout + done.stderr

    return call


@pytest.fixture(scope="session")
def run(run_spade):
    """The directory of a short run of nano. The first process that needs the run makes it for all."""
    folder = Path.cwd()
    with Path("run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "runs").exists():
            code, told = run_spade("up", "nano", "--headless", "--steps", 1, "--set", "evaluation.suite=", cwd=folder)
            assert code == 0, told
    return folder / "runs/nano"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder of installed packages."""
    folder = tmp_path_factory.mktemp("installed")
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
