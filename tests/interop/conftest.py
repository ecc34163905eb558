"""Shared by the tests of other libraries: the command line of the installed wheel, and a run that it made."""

import fcntl
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

import spade

COMMAND = (sys.executable, "-P", "-m", "spade.app.cli")

assert "site-packages" in spade.__file__, "make test-interop runs these tests, with the wheel"
os.environ["PYTHONPATH"] = ""  # no process of these tests finds the sources
sys.path.append(str(Path(__file__).parents[2]))  # for the parts of tests alone: the wheel comes before


@pytest.fixture(scope="session")
def run_spade():
    """Run a command line of spade in a folder, with further variables. Return its exit code and what it printed."""

    def call(*words, cwd, **given):
        env = {**os.environ, **given}
        words = map(str, words)
        done = subprocess.run([*COMMAND, *words], cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
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


@pytest.fixture(scope="session")
def install():
    """Install the package in a folder into another folder, without the packages that it needs."""
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--target")

    def call(package, folder):
        subprocess.run([*pip, folder, package], check=True, timeout=120)
        importlib.invalidate_caches()

    return call
