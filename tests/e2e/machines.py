"""Machines of this one kernel: each has its own processes, name and network with an address, and sees the same files.

A user namespace around them makes this possible without being root.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_BEGIN = ["--fork", "--mount-proc", "--kill-child", "sh", "-c"]


class Machine:
    """A machine that runs `script` as its first process, which prints a line when it is up."""

    def __init__(self, name: str, script: str, around: list[str]) -> None:
        words = [*around, "unshare", "--pid", "--mount", "--uts", "--net", *_BEGIN, f"hostname {name}; {script}"]
        self.name = name
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if not self.process.stdout.readline():
            pytest.skip(f"namespaces are not allowed here: {self.process.stderr.read().decode().strip()}")
        self.pid = _first_child(self.process.pid)
        self._started: list[subprocess.Popen[str]] = []

    def inside(self, *words: str) -> list[str]:
        """A command on this machine."""
        return ["nsenter", f"--target={self.pid}", "--user", "--preserve-credentials", "--pid", "--mount", "--uts",
                "--net", f"--wdns={Path.cwd()}", "--", *words]  # fmt: skip

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A command in the background."""
        pipe = subprocess.PIPE
        begun = subprocess.Popen(self.inside(*words), stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True)
        self._started.append(begun)
        return begun

    def cut_power(self) -> None:
        """End all of its processes at once."""
        self.process.kill()
        self.process.communicate()
        for begun in self._started:
            begun.kill()
            if not begun.stdout.closed:
                begun.communicate()


class Commands:
    """`spade` on a machine, each command in a fork of a process that has imported all that it needs."""

    def __init__(self, machine: Machine, folder: Path, *around: str) -> None:
        folder.mkdir()
        self._forks = machine.start(*around, sys.executable, "-m", "tests.app.forked", str(folder))

    def __call__(self, *words: object) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        print(json.dumps([".", [str(word) for word in words], ""]), file=self._forks.stdin, flush=True)
        return tuple(json.loads(self._forks.stdout.readline()))


def _first_child(pid: int) -> int:
    """The first process of the innermost namespace below a chain of launchers."""
    while children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        pid = int(children[0])
        if Path(f"/proc/{pid}/status").read_text().split("NSpid:")[1].splitlines()[0].split()[-1] == "1":
            return pid
    return pid


@contextmanager
def two_machines(idle: int = 0) -> Iterator[tuple[Machine, Machine]]:
    """The machines a (10.78.0.1) and b (10.78.0.2), with a cable; b has so many idle processes, from pid 2 on."""
    if missing := [tool for tool in ("ip", "unshare", "nsenter") if shutil.which(tool) is None]:
        pytest.skip(f"there is no {missing[0]}")
    ground = ["unshare", "--user", "--map-root-user"]
    machines = []
    try:
        machines.append(Machine("machine-a", "echo up; exec sleep infinity", ground))
        around = ["nsenter", f"--target={machines[0].pid}", "--user", "--preserve-credentials"]
        sleepers = f"for _ in $(seq {idle}); do sleep infinity & done"
        machines.append(Machine("machine-b", f"{sleepers}; echo up; exec sleep infinity", around))
        one, other = machines
        cable = f"ip link add wire type veth peer name wire netns {other.pid}"
        up = "ip link set lo up; ip link set wire up; ip addr add 10.78.0.{}/30 dev wire"
        # Both ends are named by processes that this network's owner sees: from outside, in our own namespace of pids.
        lay = [*around, f"--net=/proc/{one.pid}/ns/net", "sh", "-ec", f"{cable}; {up.format(1)}"]
        done = subprocess.run(lay, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"network namespaces are not allowed here: {done.stderr.strip()}")
        subprocess.run(other.inside("sh", "-ec", up.format(2)), check=True)
        yield one, other
    finally:
        for machine in machines:
            machine.cut_power()
