"""Ray on machines of this one kernel: each with its own processes, address, /tmp and /dev/shm, on one network.

The folder `shared` is seen by all but blind ones. A machine's cable can be pulled, and its power cut.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.e2e.machines import Commands, Machine

BIN = Path(sys.executable).parent
SOON_S = 400.0  # a busy machine takes long to start Ray
_TRIES = 5
ENVIRONMENT = {
    "PATH": f"{BIN}:/usr/sbin:/usr/bin:/sbin:/bin",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",  # else a token that lies in the home folder of whoever tests is asked for
    "RAY_prestart_worker_first_driver": "0",  # else each machine starts as many idle Pythons as it has CPUs
    "RAY_enable_metrics_collection": "0",
    "RAY_worker_niceness": "0",  # else all that is placed waits for whatever else this one kernel has to do
    "RAY_raylet_start_wait_time_s": "90",
    "RAY_agent_register_timeout_ms": f"{1000 * SOON_S:.0f}",
}
_ENV = ("env", *(f"{key}={value}" for key, value in ENVIRONMENT.items()))
_SPADE = (sys.executable, "-m", "spade.app.cli")
# Ports are given, since Ray waits for those it would choose no longer than a quiet machine takes.
SMALL = (
    "--object-store-memory=80000000",
    "--dashboard-agent-listen-port=52365", "--dashboard-agent-grpc-port=52366", "--metrics-export-port=52367",
    "--runtime-env-agent-port=52368",
)  # fmt: skip
_OWN = (
    "mount -t tmpfs tmpfs /dev/shm; mount --bind {shared} /mnt; mount -t tmpfs tmpfs /tmp; mkdir -p {shared}; {seen} "
    "printf '{hosts}' > /tmp/hosts; mount --bind /tmp/hosts /etc/hosts;"
)
NAMES = "abcdefghi"
_UP = "echo up; exec sleep infinity"


class Lab:
    """Machines by name, "a" with the head of the cluster."""

    def __init__(self, shared: Path) -> None:
        self.shared = shared
        self.machines: dict[str, Machine] = {}
        self._commands: Commands | None = None  # of "a", which is asked for the status again and again
        self.hub = Machine("hub", _UP, ["unshare", "--user", "--map-root-user"])
        self._around = ["nsenter", f"--target={self.hub.pid}", "--user", "--preserve-credentials"]
        self.network("ip link add bridge type bridge; ip link set bridge up")

    def power_on(self, name: str, *, blind: bool = False) -> Machine:
        """A machine without Ray. It knows the names of all; the name of "a" is machine-a."""
        seen = "" if blind else f"mount --bind /mnt {self.shared};"
        hosts = "".join(f"{self.address(each)} machine-{each}\\n" for each in NAMES)
        own = _OWN.format(shared=self.shared, seen=seen, hosts=hosts)
        machine = self.machines[name] = Machine(f"machine-{name}", f"{own} umount /mnt; {_UP}", self._around)
        self.network(
            f"ip link delete to-{name} 2> /dev/null || true; "  # of an earlier life
            f"ip link add name to-{name} type veth peer name eth0 netns {machine.pid}; "
            f"ip link set to-{name} master bridge up"
        )
        up = f"ip link set lo up; ip link set eth0 up; ip addr add {self.address(name)}/24 dev eth0"
        subprocess.run(machine.inside("sh", "-ec", up), check=True)
        return machine

    def add(
        self, name: str, *ray: str, blind: bool = False, environment: Mapping[str, str] = MappingProxyType({})
    ) -> Machine:
        """Power a machine on and start Ray on it, with these words for `ray start` in that environment."""
        machine = self.power_on(name, blind=blind)
        where = ["--head", "--port=6379", "--include-dashboard=false"]
        if name != "a":
            where = [f"--address={self.address('a')}:6379"]
        given = ["env", *(f"{key}={value}" for key, value in environment.items())]
        own = [f"--node-ip-address={self.address(name)}", "--disable-usage-stats", *SMALL, *ray]
        for _ in range(_TRIES):
            done = subprocess.run(
                self.inside(name, *given, "ray", "start", *where, *own), capture_output=True, text=True, check=False
            )
            if done.returncode == 0:
                return machine
            # Its node gives its own agents 15 s to come up, whatever it is told; this ends all of Ray on that machine.
            subprocess.run(self.inside(name, "ray", "stop", "--force"), capture_output=True, check=False)
        raise AssertionError(done.stdout + done.stderr)

    def address(self, name: str) -> str:
        return f"10.88.0.{NAMES.index(name) + 1}"

    def inside(self, name: str, *words: str) -> list[str]:
        """A command on a machine, with the environment that Ray needs."""
        return self.machines[name].inside(*_ENV, *words)

    def start(self, name: str, *words: object) -> subprocess.Popen[str]:
        """`spade` on a machine, in the background."""
        return self.machines[name].start(*_ENV, *_SPADE, *map(str, words))

    def spade(self, name: str, *words: object) -> subprocess.CompletedProcess[str]:
        """`spade` on a machine, to its end."""
        if name == "a":
            machine = self.machines["a"]
            self._commands = self._commands or Commands(machine, self.shared / f"forks-{machine.pid}", *_ENV)
            return subprocess.CompletedProcess(words, *self._commands(*words))
        command = self.inside(name, *_SPADE, *map(str, words))
        return subprocess.run(command, capture_output=True, text=True, timeout=SOON_S, check=False)

    def roles(self, name: str) -> list[str]:
        """The names of the role processes that are alive on a machine."""
        found = subprocess.run(
            self.machines[name].inside("pgrep", "-a", "-f", '"role":'), capture_output=True, text=True, check=False
        )
        return sorted(row.split('"name":"')[1].split('"')[0] for row in found.stdout.splitlines() if '"name":"' in row)

    def cut_power(self, name: str) -> None:
        """End all that a machine does at once. It may be powered on again."""
        self.machines.pop(name).cut_power()
        if name == "a":
            self._commands = None

    def pull_cable(self, name: str) -> None:
        self.network(f"ip link set to-{name} down")

    def plug_cable(self, name: str) -> None:
        self.network(f"ip link set to-{name} up")

    def close(self) -> None:
        for machine in [*self.machines.values(), self.hub]:
            machine.cut_power()

    def network(self, script: str) -> None:
        """Run a script where the cables meet; that of a machine is `to-NAME`."""
        words = [*self._around, f"--net=/proc/{self.hub.pid}/ns/net", "sh", "-ec", script]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"network namespaces are not allowed here: {done.stderr.strip()}")


@contextmanager
def lab(shared: Path) -> Iterator[Lab]:
    """Machines for the length of the block."""
    made = Lab(shared)
    try:
        yield made
    finally:
        made.close()
