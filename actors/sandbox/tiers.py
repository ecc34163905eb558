"""The ladder of walls: which layers stand together, how a zygote starts behind them, and attacks that prove them.

A tier is chosen by a test on this machine, not by versions: a program makes every attack below, and all must fail.
"""

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from spade.config import Tier

Layers = frozenset[str]

TIERS: dict[Tier, Layers] = {
    "namespaces": frozenset({"limits", "namespaces", "landlock", "seccomp"}),
    "landlock": frozenset({"limits", "landlock", "seccomp"}),
    "seccomp": frozenset({"limits", "seccomp"}),
    "none": frozenset({"limits"}),
}
"""Take `none` only for programs of your own."""

LADDER: tuple[Tier, ...] = ("namespaces", "landlock", "seccomp")
"""The tiers that "auto" tries, strongest first."""

LIMITED = "take memory without end"
"""The attack that fails even without walls."""

ATTACKS = {
    "read a file": "open('/etc/passwd').read()",
    "read the environment of the host": "open('/proc/self/environ', 'rb').read()",
    "write a file": "os.open('/tmp', os.O_WRONLY | os.O_TMPFILE)",
    "start a process": "os.fork() or os._exit(0)",
    "open the network": "import socket; socket.socket()",
    "signal another process": "os.kill(os.getppid(), 0)",
    "trace a process": "import ctypes\n        if ctypes.CDLL(None).ptrace(0, 0, 0, 0) != 0: raise OSError",
    "run bytes as code": "import mmap; mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)",
    "share memory": "import mmap; mmap.mmap(-1, 4096)",
    "look for another process": "import time; time.clock_gettime(~os.getppid() << 3 | 2)",
    "read our code": f"open({__file__!r}).read()",
    "see the name of a file": f"os.stat({__file__!r})",
    LIMITED: "bytearray(2**40)",
}
"""Each is made in every zygote at its start, heavy ones included."""

_ATTACKER = """
class AttackerEnv:
    def reset(self, seed):
        return "ready", {{}}
    def step(self, action):
        {attack}
        return "succeeded", 0.0, True, False, {{}}
    def solution(self):
        return []
    def close(self):
        pass
"""


def attacker(what: str) -> str:
    """A program that makes the attack in `step`, and answers "succeeded" if nothing stopped it."""
    return _ATTACKER.format(attack=ATTACKS[what])


_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")


def bubblewrap() -> Sequence[str]:
    """The command that runs what follows it in namespaces, where it sees our interpreter and no network."""
    inside, binaries = Path(__file__).parent / "inside", Path(sys.executable).parent
    interpreter = [sys.base_prefix, sys.base_exec_prefix, sys.prefix, *sysconfig.get_paths().values()]
    return walled((*map(Path, interpreter), binaries, inside))


def walled(shown: Iterable[Path]) -> Sequence[str]:
    """The command that runs what follows it in namespaces, where it sees these folders and the system's libraries.

    It has no network but a loopback of its own.

    What it runs is process 1 there, so that its end is the end of all; it ends when its control socket does. (Not by
    --die-with-parent: bubblewrap, killed while it sets the namespaces up, leaves a process behind.) Raises
    FileNotFoundError if bubblewrap is not installed.
    """
    command = shutil.which("bwrap")
    if command is None:
        raise FileNotFoundError("bwrap (the package bubblewrap) is not installed")
    root = os.geteuid() == 0
    # Root needs no user namespace, and inside of one could not become nobody.
    private = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    rights = ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"] if root else ["--unshare-user"]
    binds = [word for path in _outermost(shown) for word in (*folders_above(path), "--ro-bind", str(path), str(path))]
    return [command, "--as-pid-1", *private, *rights, *binds, "--chdir", "/"]


def _outermost(shown: Iterable[Path]) -> Iterator[Path]:
    """Those folders, and the system's, that are there and are not inside of another."""
    kept: list[Path] = []
    for path in sorted({path for path in (*shown, *map(Path, _SYSTEM)) if path.is_dir()}):
        if not any(path.is_relative_to(other) for other in kept):
            kept.append(path)
    yield from kept


def folders_above(path: Path) -> Iterator[str]:
    """Bubblewrap's options that make the folders above a path open to all users; its default is private ones."""
    for folder in reversed(path.parents[:-1]):
        yield from ("--perms", "0755", "--dir", str(folder))
