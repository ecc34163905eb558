"""Shared by the tests of other libraries: the command line of the installed wheel, and a run that it made."""

import os
import subprocess
import sys

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
def run(run_spade, tmp_path_factory):
    """The directory of a short run of nano."""
    folder = tmp_path_factory.mktemp("run")
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
