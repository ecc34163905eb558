"""A run of machine a is seen, told to scale and stopped from machine b, where a process has its supervisor's pid."""

import json
import subprocess
import sys

from spade.transport import keys
from tests.e2e.machines import Commands, two_machines
from tests.e2e.test_up import SOON_S, wait_until

BESIDE = 100  # idle processes of machine b: it has one of each pid that a process of machine a has
ADDRESS = "tcp://10.78.0.1:5555"


def test_a_run_is_seen_scaled_and_stopped_from_another_machine(tmp_path):
    run, folder = tmp_path / "run", tmp_path / "keys"
    keys.create(folder, ["b"], ["observer"])
    with two_machines(idle=BESIDE) as (a, b):
        settings = ["--set", f"bus.bind={ADDRESS}", "--set", f"bus.keys={folder}"]
        spade = [sys.executable, "-m", "spade.app.cli"]
        up = a.start(*spade, "replay", "up", "nano", "--run", str(run), *settings)
        on_b = Commands(b, tmp_path / "b")

        def status():
            return on_b("status", run, "--json")

        wait_until(lambda: status()[0] == 0, SOON_S)
        joined = a.start(
            *spade, "actors", "up", "nano", "--connect", ADDRESS, "--agents", "1", "--run", str(tmp_path / "a"),
            *settings,
        )  # fmt: skip

        def agents():
            return [one["state"] for one in json.loads(status()[1])["processes"] if one["role"] == "agent"]

        wait_until(lambda: agents() == ["ready"], SOON_S)
        holder = json.loads((run / "replay.lock").read_bytes())
        assert (holder["host"], 1 < holder["pid"] < BESIDE) == ("machine-a", True)

        code, _, told = on_b("replay", "up", "--run", run)
        assert (code, told) == (
            1,
            f"spade: {run}: its replay is already up (pid {holder['pid']} of machine-a); `spade top {run}` attaches, "
            f"`spade stop {run}` stops it\n",
        )
        by_key = ("--keys", folder / "hosts/b")
        assert on_b("actors", "scale", ADDRESS, "agents=2", *by_key)[0] == 0
        assert agents() == ["ready"] * 2
        assert on_b("stop", run) == (0, f"{run}: stopped\n", "")
        for command in (up, joined):
            told = command.communicate(timeout=SOON_S)[0]
            assert (command.returncode, "Traceback" in told) == (0, False), told
        assert (run / "replay.lock").read_bytes() == b""
        assert on_b("stop", run)[2] == f"spade: {run}: nothing is up\n"
        beside = subprocess.run(b.inside("pgrep", "-c", "sleep"), capture_output=True, text=True, check=True)
        assert int(beside.stdout) == BESIDE + 1
