"""The tiers of a sandbox: the layers of restrictions in each tier, and the attacks that test them.

A tier is chosen by a test on this machine, not by version numbers. The test program makes every attack below, and all
must fail.
"""

import sys
import sysconfig
import zoneinfo
from collections.abc import Sequence
from pathlib import Path

from spade.config import Tier
from spade.processes.walls import make_walled_prefix

Layers = frozenset[str]

TIERS: dict[Tier, Layers] = {
    "namespaces": frozenset({"limits", "namespaces", "landlock", "seccomp"}),
    "landlock": frozenset({"limits", "landlock", "seccomp"}),
    "seccomp": frozenset({"limits", "seccomp"}),
    "none": frozenset({"limits"}),
}
"""The layers of each tier. Use `none` only for programs of your own."""

LADDER: tuple[Tier, ...] = ("namespaces", "landlock", "seccomp")
"""The tiers that "auto" tries, strongest first."""

LIMITED = "take memory without end"
"""The attack that fails in the tier `none` too."""

ATTACKS = {
    "read a file": "open('/etc/passwd').read()",
    "read the environment of the host": "open('/proc/self/environ', 'rb').read()",
    "write a file": "os.open('/tmp', os.O_WRONLY | os.O_TMPFILE)",
    "start a process": "os.fork() or os._exit(0)",
    "open the network": "import socket; socket.socket()",
    "signal another process": "os.kill(os.getppid(), 0)",
    "trace a process": "import ctypes\nif ctypes.CDLL(None).ptrace(0, 0, 0, 0) != 0: raise OSError",
    "run bytes as code": "import mmap; mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)",
    "share memory": "import mmap; mmap.mmap(-1, 4096)",
    "look for another process": "import time; time.clock_gettime(~os.getppid() << 3 | 2)",
    "read our code": f"open({__file__!r}).read()",
    "see the name of a file": f"os.stat({__file__!r})",
    LIMITED: "bytearray(2**40)",
}
"""The attacks by name. Each zygote is tested by all of them when it starts; in the tier `none`, only by LIMITED."""

REFUSED = "refused by "
"""The beginning of the attacker's answer to an attack that ended in an error."""

ATTACKER = f"""
class AttackerEnv:
    def reset(self, seed):
        return "ready", {{}}
    def step(self, action):
        try:
            exec(action)
        except BaseException as error:
            return {REFUSED!r} + type(error).__name__, 0.0, False, False, {{}}
        return "succeeded", 0.0, False, False, {{}}
    def solution(self):
        return []
    def close(self):
        pass
"""
"""A program that makes the attack that it gets as an action."""


def make_bubblewrap_command() -> Sequence[str]:
    """Return a command that runs the rest of its line in namespaces, without a network.

    In the namespaces, only the interpreter, the system's libraries, the time zones and `inside` are visible.
    """
    inside, binaries = Path(__file__).parent / "inside", Path(sys.executable).parent
    interpreter = [sys.base_prefix, sys.base_exec_prefix, sys.prefix, *sysconfig.get_paths().values()]
    return make_walled_prefix((*map(Path, (*interpreter, *zoneinfo.TZPATH)), binaries, inside))
