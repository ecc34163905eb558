"""Shared by the tests of the command line."""

import json
import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def spade(tmp_path_factory):
    """Runs a command as `spade(*words, cwd=…, typed=…)`, like subprocess.run; see `tests/app/forked.py`."""
    folder = tmp_path_factory.mktemp("forks")
    command = [sys.executable, "-m", "tests.app.forked", str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as forks:

        def run(*words, cwd=folder, typed=""):
            print(json.dumps([str(cwd), words, typed]), file=forks.stdin, flush=True)
            return subprocess.CompletedProcess(words, *json.loads(forks.stdout.readline()))

        yield run
        forks.stdin.close()
