"""A run whose engine and learner share the device."""

import subprocess
import sys

import pytest

from replay.inspect.contents import read_contents
from replay.store import open_reader

FOR_S = 45


def spade(folder, *words):
    return subprocess.run(
        [sys.executable, "-m", "spade.app.cli", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("config", ["nano"])
def test_it_plays_and_trains(config, device, tmp_path):
    devices = ("--set", f"engine.device={device}", "--set", f"learner.device={device}")
    done = spade(tmp_path, "up", config, "--headless", "--run", "run", "--for", f"{FOR_S}s", *devices)
    assert done.returncode == 0, done.stderr
    with open_reader(tmp_path / "run" / "store") as store:
        contents = read_contents(store)
    assert contents.batches
    checked = spade(tmp_path, "replay", "verify", "run")
    assert checked.returncode == 0, checked.stdout
