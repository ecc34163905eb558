"""`spade doctor`: what this machine can do for a run, and what would make it better."""

import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path

import msgspec
import trio
from rich.console import Console
from rich.table import Table

from spade.config import Sandbox, load
from spade.errors import SpadeError
from spade.protocol import Faulted, Observed

_PACKAGES = ("torch", "transformers", "tokenizers", "pyzmq", "msgspec", "trio", "lmdb", "math-verify")
_EXTRAS = ("deepspeed", "vllm")
_PROGRAM = """
class ProbeEnv:
    def reset(self, seed):
        return "ready", {{}}
    def step(self, action):
        {step}
        return "done", 1.0, True, False, {{}}
    def solution(self):
        return []
    def close(self):
        pass
"""
_ATTACKS = {
    "endless loop": "while True: pass",
    "eat memory": "bytearray(2**40)",
    "write a file": "open('{folder}/file', 'w').write('x')",
    "start a process": "import os; os.fork()",
    "open the network": "import socket; socket.socket()",
    "read a file": "open('/etc/passwd').read()",
}
PROBE_S = 0.5
_GIB = 2**30
_DISK_GIB = 5


def examine() -> None:
    """Print one line a check."""
    table = Table.grid(padding=(0, 2))
    for name, good, detail in [*_machine(), *_accelerator(), *_packages(), *_sandbox()]:
        table.add_row({True: "[green]ok[/]", False: "[red]no[/]", None: "[dim]–[/]"}[good], name, detail)
    Console().print(table)


Check = tuple[str, bool | None, str]


def _machine() -> Iterator[Check]:
    yield "python", sys.version_info >= (3, 11), sys.version.split()[0]
    yield "system", sys.platform == "linux", f"{platform.system()} {platform.release()} on {platform.machine()}"
    cores = len(os.sched_getaffinity(0))
    yield "cores", cores >= 2, f"{cores}" if cores >= 2 else f"{cores}: self-play wants two or more"
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB
    yield "memory", memory >= 4, f"{memory:.0f} GiB"
    free = shutil.disk_usage(Path.cwd()).free / _GIB
    yield "disk", free >= _DISK_GIB, f"{free:.0f} GiB free here"


def _accelerator() -> Iterator[Check]:
    import torch

    if torch.cuda.is_available():
        yield "accelerator", True, f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}"
    else:
        yield "accelerator", None, "none that torch sees: nano runs on the CPU, larger models want a GPU"


def _packages() -> Iterator[Check]:
    for package in _PACKAGES:
        try:
            yield package, True, metadata.version(package)
        except metadata.PackageNotFoundError:
            yield package, False, f"missing: pip install {package}"
    for extra in _EXTRAS:
        found = util.find_spec(extra) is not None
        yield extra, True if found else None, metadata.version(extra) if found else "not installed (an extra)"


def _sandbox() -> Iterator[Check]:
    """Run small programs behind the walls and see what each of them may do."""
    limits = msgspec.structs.replace(load().sandbox, step_s=PROBE_S)
    with tempfile.TemporaryDirectory() as folder:
        # Open to all, so that only a wall can be what refuses the write.
        Path(folder).chmod(0o777)
        attacks = {what: step.format(folder=folder) for what, step in _ATTACKS.items()}
        try:
            yield from trio.run(_attack, attacks, limits)
        except SpadeError as error:
            yield "sandbox", False, str(error)


async def _attack(attacks: dict[str, str], limits: Sandbox) -> list[Check]:
    from actors.sandbox import open_sandbox

    found: list[Check] = []
    async with open_sandbox(limits) as sandbox:
        started = time.monotonic()
        answer = await sandbox.open("doctor", _PROGRAM.format(step="pass"), 0, 1)
        spawn = f"first observation after {1000 * (time.monotonic() - started):.0f} ms"
        found.append(("sandbox", isinstance(answer, Observed), spawn))
        for what, step in attacks.items():
            await sandbox.open("doctor", _PROGRAM.format(step=step), 0, 1)
            answer = await sandbox.step("doctor", 1, "")
            held = isinstance(answer, Faulted)
            found.append((f"  {what}", held, f"refused ({answer.kind})" if isinstance(answer, Faulted) else "succeeds"))
    return found
