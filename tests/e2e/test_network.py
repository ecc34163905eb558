"""Two actor hosts in network namespaces join a learner host under CURVE, scale, lose their link and come back."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actors.engines.weights.fetch import KEPT
from replay.ledger.records import PlayRecord
from replay.store import open_reader
from spade.config import load
from tests.e2e.test_up import SOON_S, wait_until

SPADE = [sys.executable, "-m", "spade.app.cli"]
LEARNER, PORT = "10.77.0.1", 5_555
HOSTS = {"a": "10.77.0.2", "b": "10.77.0.3"}
SETTINGS = (
    "design.active_environments=6", "design.round_jobs=3", "play.group_size=4", "play.window_chunks=1",
    "learner.batch_sequences=16", "actors.agents=0", "bus.silence_s=3.0", "supervise.drain_s=60.0",
    "evaluation.suite=",
    "evaluation.diversity_programs=0",
)  # fmt: skip
LOSS_S = 6.0


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Network:
    """A learner host and actor hosts, each a network namespace with a cable to the learner's."""

    def __init__(self) -> None:
        self._mark = f"spade-{os.getpid()}"
        self._running: list[subprocess.Popen[str]] = []

    def lay(self) -> None:
        ip("netns", "add", self.space("l"))
        ip("-n", self.space("l"), "link", "set", "lo", "up")
        ip("-n", self.space("l"), "addr", "add", f"{LEARNER}/32", "dev", "lo")
        for host, address in HOSTS.items():
            ip("netns", "add", self.space(host))
            ip("-n", self.space(host), "link", "set", "lo", "up")
            ends = ["peer", "name", "wire", "netns", self.space(host)]
            ip("-n", self.space("l"), "link", "add", f"to-{host}", "type", "veth", *ends)
            ip("-n", self.space(host), "addr", "add", f"{address}/32", "dev", "wire")
            ip("-n", self.space(host), "link", "set", "wire", "up")
            self.plug(host)
            ip("-n", self.space(host), "route", "add", LEARNER, "dev", "wire")

    def plug(self, host: str) -> None:
        ip("-n", self.space("l"), "link", "set", f"to-{host}", "up")
        ip("-n", self.space("l"), "route", "add", HOSTS[host], "dev", f"to-{host}", "src", LEARNER)

    def unplug(self, host: str) -> None:
        ip("-n", self.space("l"), "link", "set", f"to-{host}", "down")

    def space(self, host: str) -> str:
        return f"{self._mark}-{host}"

    def command(self, host: str, *words: str) -> list[str]:
        """`spade` on that host."""
        return ["ip", "netns", "exec", self.space(host), *SPADE, *words]

    def up(self, host: str, *words: str, hidden: Path | None = None) -> subprocess.Popen[str]:
        """`spade` in the background on a host that sees nothing in the folder `hidden`."""
        # Each `ip netns exec` has mounts of its own.
        hide = [] if hidden is None else ["sh", "-c", 'mount -t tmpfs tmpfs "$0" && exec "$@"', str(hidden)]
        return self.start(host, *hide, *SPADE, *words)

    def start(self, host: str, *command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.space(host), *command],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self._running.append(process)
        return process

    def roll_up(self) -> None:
        for process in self._running:
            process.kill()
            process.communicate()
        for host in ("l", *HOSTS):
            subprocess.run(["ip", "netns", "del", self.space(host)], check=False, capture_output=True)


@contextmanager
def network() -> Iterator[Network]:
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip` (package iproute2)")
    net = Network()
    try:
        try:
            net.lay()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"network namespaces are not allowed here: {error.stderr.strip()}")
        yield net
    finally:
        net.roll_up()


class Run:
    """The run on the learner's host, seen through its store and through its status there."""

    def __init__(self, net: Network, path: Path) -> None:
        self._net = net
        self.path = path
        self._statuses = net.start("l", sys.executable, "-m", "tests.e2e.statuses", str(path))

    def status(self) -> dict:
        asked, told = self._statuses.stdin, self._statuses.stdout
        print(file=asked, flush=True)
        return json.loads(told.readline())

    def agents(self) -> list[str]:
        """The states of the agents, as their hosts said last."""
        return [process["state"] for process in self.status()["processes"] if process["role"] == "agent"]

    def hosts(self) -> list[str]:
        """The supervisors that keep agents."""
        return sorted(name for name, counts in self.status()["wanted"].items() if counts.get("agent"))

    def scale(self, host: str, agents: int) -> None:
        order = ["actors", "scale", str(self.path), f"agents={agents}", "--on", host]
        done = subprocess.run(self._net.command("l", *order), check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def far_engine(self, newer_than: int) -> dict:
        """Gauges of the engine that is not on the learner's host, once it has newer weights."""
        gauges: dict = {}

        def swapped() -> bool:
            engines = [process for process in self.status()["processes"] if process["role"] == "engine"]
            gauges.update(*(engine["gauges"] for engine in engines if "@" in engine["name"]))
            return gauges.get("policy_version", 0) > newer_than

        wait_until(swapped, SOON_S)
        return gauges

    def finished(self) -> dict[str, PlayRecord]:
        """The plays whose end was acknowledged, by id."""
        if not (self.path / "store" / "data.mdb").exists():
            return {}
        with open_reader(self.path / "store") as store:
            return {play.id: play for play in store.scan("plays", PlayRecord) if play.state == "finished"}

    def players(self, known: Container[str] = ()) -> set[str]:
        """The agents (name and pid) that played the finished plays that are not `known`."""
        return {play.holder for play in self.finished().values() if play.id not in known}


def stop(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=SOON_S)[0]
    assert process.returncode == 130, output
    assert "Traceback" not in output


@pytest.mark.slow
def test_actor_hosts_join_lose_their_link_and_come_back(tmp_path: Path) -> None:
    assert load("nano", SETTINGS).bus.silence_s < LOSS_S, "so short a loss is not noticed"
    address, keys = f"tcp://{LEARNER}:{PORT}", tmp_path / "keys"
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    join = ["actors", "up", "--connect", address, "--agents", "1", *settings]
    with network() as net:
        run = Run(net, tmp_path / "run")
        subprocess.run([*SPADE, "keys", "new", str(keys), *HOSTS], check=True)
        without = subprocess.run(net.command("a", *join), check=False, capture_output=True, text=True, cwd=tmp_path)
        assert (without.returncode, without.stderr.count("\n")) == (1, 1)
        assert "needs keys: `spade keys new DIR`" in without.stderr

        here = ["--set", f"bus.bind={address}", "--set", f"bus.keys={keys}"]
        up = net.up("l", "up", "--headless", "--run", str(run.path), *settings, *here)
        homes = {host: ["--run", str(tmp_path / host), "--set", f"bus.keys={keys / 'hosts' / host}"] for host in HOSTS}
        wait_until(lambda: bool(run.status()["processes"]), SOON_S)
        joined = {
            "a": net.up("a", *join, *homes["a"]),
            "b": net.up("b", *join, "--engines", "1", *homes["b"], hidden=run.path),
        }
        wait_until(lambda: len(run.hosts()) == 2, SOON_S)
        grown, _ = run.hosts()
        run.scale(grown, agents=2)
        wait_until(lambda: len(run.players()) == 3, SOON_S)

        for host in HOSTS:
            net.unplug(host)
        cut, players, acknowledged = time.monotonic(), run.players(), run.finished()
        wait_until(lambda: run.agents() == ["silent"] * 3, SOON_S)
        time.sleep(max(0.0, cut + LOSS_S - time.monotonic()))  # a loss is a length of time
        for host in HOSTS:
            net.plug(host)
        wait_until(lambda: len(run.players(acknowledged)) == 3, SOON_S)
        assert run.players() == players, "an agent was started again"
        finished = run.finished()
        assert all(finished[id].episode_return == play.episode_return for id, play in acknowledged.items())
        wait_until(lambda: run.agents() == ["ready"] * 3, SOON_S)
        since = run.status()["policy_version"]
        assert run.far_engine(newer_than=since)["canary_mismatch"] < 1e-3
        fetched = tmp_path / "b" / "fetched"
        # For a moment the newest copy is there and the oldest still is.
        wait_until(lambda: 0 < len([path for path in fetched.glob("[!.]*") if path.is_dir()]) <= KEPT, SOON_S)

        run.scale(grown, agents=1)
        wait_until(lambda: sorted(run.agents()) == ["ready", "ready", "stopped"], SOON_S)
        stop(joined["b"])
        left = run.finished()
        wait_until(lambda: bool(run.players(left)), SOON_S)
        stop(joined["a"])
        stop(up)
        down = subprocess.run(net.command("l", "status", str(run.path), "--json"), capture_output=True, check=True)
        assert json.loads(down.stdout)["plays"] == len(run.finished())
