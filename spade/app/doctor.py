"""`spade doctor`: what this machine can do for a run, and what would make it better."""

import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import trio
from rich.table import Table
from rich.text import Text

from spade import extras
from spade.app.screen import Screen
from spade.config import ENGINE_KINDS, load
from spade.errors import SpadeError
from spade.protocol import Faulted, Status
from spade.text import line

if TYPE_CHECKING:
    from actors.sandbox import Sandbox

_PACKAGES = ("torch", "transformers", "tokenizers", "pyzmq", "msgspec", "trio", "lmdb", "math-verify")
_EXTRAS = ("deepspeed", *(kind.extra for kind in ENGINE_KINDS.values() if kind.extra))
_TIERS = {
    "namespaces": "bubblewrap, Landlock and seccomp",
    "landlock": "Landlock and seccomp",
    "seccomp": "seccomp alone",
}
_GIB = 2**30
_DISK_GIB = 5
NONE_MET = "no service met an error that nobody foresaw"


def examine(run: Path | None = None) -> None:
    """Print one line a check; with `run`, also of the errors that the services of that run met."""
    table = Table.grid(padding=(0, 2))
    checks = [*_machine(), *_accelerator(), *_packages(), *_sandbox()] + (_run(run) if run else [])
    for name, good, detail in checks:
        mark = {True: Text("ok", "green"), False: Text("no", "red"), None: Text("–", "dim")}[good]
        table.add_row(mark, Text(name), Text(line(detail)))
    Screen().print(table)


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


def of_requests(status: Status) -> Check:
    """Unforeseen errors that the services of a run met."""
    from spade.app.observe import unforeseen

    met = unforeseen(status)
    return "requests", not met, "; ".join(met) or NONE_MET


def _run(path: Path) -> list[Check]:
    from spade.app.observe import read_status
    from spade.app.rundir import RunDir

    return [of_requests(trio.run(read_status, RunDir(path)))]


def _accelerator() -> Iterator[Check]:
    import torch

    if torch.cuda.is_available():
        yield "accelerator", True, f"{torch.cuda.device_count()} that torch sees"
        for index in range(torch.cuda.device_count()):  # as engine.gpus and learner.gpus count them
            found = torch.cuda.get_device_properties(index)
            yield f"  GPU {index}", True, f"{found.name}, {found.total_memory / _GIB:.0f} GiB"
    else:
        yield "accelerator", None, "none that torch sees: nano runs on the CPU, larger models want a GPU"


def _packages() -> Iterator[Check]:
    for package in _PACKAGES:
        try:
            yield package, True, metadata.version(package)
        except metadata.PackageNotFoundError:
            yield package, False, f"missing: pip install {package}"
    for extra in _EXTRAS:
        found = extras.installed(extra)
        if found is None:
            yield extra, None, f"not installed (an extra: {extras.wanted(extra)})"
        elif extras.fits(extra):
            yield extra, True, found
        else:
            yield extra, False, f"{found}; supported is {extras.wanted(extra)}: pip install 'spade-rl[{extra}]'"


def _sandbox() -> Iterator[Check]:
    """Raise every tier's walls here, and have small programs attack the strongest that holds."""
    from actors.sandbox.inside import landlock

    command = shutil.which("bwrap")
    yield "bubblewrap", command is not None, command or "missing: install the package bubblewrap"
    version = landlock.version()
    lacking = "missing: wants Linux 5.13 or newer, and landlock among the kernel's lsm= settings"
    yield "landlock", version > 0, f"version {version}" if version else lacking
    yield from trio.run(_tiers)


async def _tiers() -> list[Check]:
    from actors.sandbox import open_sandbox
    from actors.sandbox.tiers import LADDER

    found: list[Check] = []
    limits, chosen = load().sandbox, False
    for tier in LADDER:
        try:
            async with open_sandbox(msgspec.structs.replace(limits, tier=tier)) as sandbox:
                found.append((f"sandbox tier {tier}", True, _TIERS[tier] if chosen else f"{_TIERS[tier]}; taken"))
                if not chosen:
                    found += await _attack(sandbox)
                    chosen = True
        except SpadeError as error:
            found.append((f"sandbox tier {tier}", None if chosen else False, f"{_TIERS[tier]}: {error}"))
    return found


async def _attack(sandbox: "Sandbox") -> list[Check]:
    """What each attack comes to, and how long an honest program takes to answer."""
    from actors.sandbox.tiers import ATTACKS, attacker

    found: list[Check] = []
    for what in ATTACKS:
        started = time.monotonic()
        await sandbox.open("doctor", attacker(what), 0, 1)
        spawn_ms = 1000 * (time.monotonic() - started)
        answer = await sandbox.step("doctor", 1, "")
        held = isinstance(answer, Faulted)
        found.append((f"  {what}", held, f"refused ({answer.kind})" if isinstance(answer, Faulted) else "succeeds"))
    return [("  first observation", True, f"after {spawn_ms:.0f} ms"), *found]
