"""The scripts that use SPADE from Python: each does in its own process what its first line says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import spade

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Return a function that runs a script in one folder and returns what it prints."""
    folder = tmp_path_factory.mktemp("examples")

    def run(script, *words):
        command = [sys.executable, str(EXAMPLES / script), *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout, folder

    return run


@pytest.mark.slow
def test_an_environment_of_the_script_is_trained_on_and_its_run_is_read(start):
    told, folder = start("train_environment.py", "mine", "1")
    run = spade.open_run(folder / "mine" / "run")
    assert run.metrics["learner_step"] == [1]
    (source,) = {each.source for each in run.environments}
    assert source.startswith("import random\n\n\nclass SearchEnv:\n")
    assert all(re.fullmatch(r"after step \d: won [01]\.\d\d ± 0\.\d\d of 48 plays", line) for line in told.splitlines())
    told, _ = start("read_run.py", "mine/run")
    assert told.startswith("step 1: win rate 0.")
    assert source in told
    assert re.search(r"^e\d+-0u\d+ (won|lost): \d+ of \d+ tokens sampled, at a mean log-prob.* -\d\.\d+$", told, re.M)


def test_a_checkpoint_is_measured(start):
    told, folder = start("evaluate_checkpoint.py", "nano", "nano", "4")
    assert re.match(r"nano: [01]\.\d\d, 95 % interval [01]\.\d\d to [01]\.\d\d, 4 items\n", told)
    assert f"records in {folder}/evaluations/nano@short/" in told
