"""`spade doctor`: what this machine can do for a run, and what would make it better."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path

from rich.console import Console
from rich.table import Table

_PACKAGES = ("torch", "transformers", "tokenizers", "pyzmq", "msgspec", "trio", "lmdb", "math-verify")
_EXTRAS = ("deepspeed", "vllm")
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
    from actors.sandbox import describe

    yield from describe()
