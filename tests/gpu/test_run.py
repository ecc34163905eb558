"""A run whose engine and learner share the device."""

import subprocess
import sys

from replay.inspect.contents import read_contents
from replay.store import open_reader

FOR_S, AT_MOST_S = 45, 300


def spade(folder, *words):
    command = [sys.executable, "-m", "spade.app.cli", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=AT_MOST_S, check=False)


def test_it_plays_and_trains(device, tmp_path):
    devices = ("--set", f"engine.device={device}", "--set", f"learner.device={device}")
    done = spade(tmp_path, "up", "nano", "--headless", "--run", "run", "--for", f"{FOR_S}s", *devices)
    assert done.returncode == 0, done.stderr
    with open_reader(tmp_path / "run" / "store") as store:
        contents = read_contents(store)
    assert contents.batches
    checked = spade(tmp_path, "replay", "verify", "run")
    assert checked.returncode == 0, checked.stdout
