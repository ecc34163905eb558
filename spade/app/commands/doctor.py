"""`spade doctor`: show the abilities of this machine, and how to improve them."""

import os
import platform
import shutil
import sys
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spade.app.commands.options import Json
from spade.app.printing import print_json
from spade.errors import ConfigError, SpadeError
from spade.processes.memory import count_machine_bytes
from spade.progress import follow
from spade.text import as_line

if TYPE_CHECKING:
    from actors.sandbox import Sandbox
    from spade.protocol import Status

_PACKAGES = ("torch", "transformers", "tokenizers", "pyzmq", "msgspec", "trio", "lmdb", "math-verify")
_TIERS = {
    "namespaces": "bubblewrap, Landlock and seccomp",
    "landlock": "Landlock and seccomp",
    "seccomp": "seccomp alone",
}
_GIB = 2**30
_DISK_GIB = 5
NONE_MET = "no service met an unforeseen error"


def doctor(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="A run directory.")] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="ray", help="Check the machines of this Ray cluster, a line for each.")
    ] = None,
    json: Json = False,
) -> None:
    """Check what this machine can do for a run.

    Suggests improvements. With RUN, also prints the unforeseen errors of the run's services. With --cluster, checks the
    machines of a cluster instead, for RUN if it is given. Exit code 1 if a machine is not fit.
    """
    from rich.table import Table
    from rich.text import Text

    from spade.app.commands.cluster.machines import check_all_fit
    from spade.app.screen.console import Screen

    if cluster is not None:
        if json:
            raise ConfigError("--json: describes only this machine; leave --cluster out")
        if not check_all_fit(Screen(), run, cluster):
            raise typer.Exit(1)
        return
    table = Table.grid(padding=(0, 2))
    parts = (_check_machine(), _check_accelerator(), _check_packages(), _check_suites(), _check_sandbox())
    checks = [*follow(chain(*parts), "checking"), *(_run(run) if run else ())]
    if json:
        print_json([{"name": name.strip(), "good": good, "detail": detail} for name, good, detail in checks])
        return
    for name, good, detail in checks:
        mark = {True: Text("ok", "green"), False: Text("no", "red"), None: Text("–", "dim")}[good]
        table.add_row(mark, Text(name), Text(as_line(detail)))
    Screen().print(table)


Check = tuple[str, bool | None, str]


def _check_machine() -> Iterator[Check]:
    yield "python", sys.version_info >= (3, 11), sys.version.split()[0]
    yield "system", sys.platform == "linux", f"{platform.system()} {platform.release()} on {platform.machine()}"
    cores = len(os.sched_getaffinity(0))
    yield "cores", cores >= 2, f"{cores}" if cores >= 2 else f"{cores}: self-play needs two or more"
    memory = count_machine_bytes() / _GIB
    yield "memory", memory >= 4, f"{memory:.0f} GiB"
    free = shutil.disk_usage(Path.cwd()).free / _GIB
    yield "disk", free >= _DISK_GIB, f"{free:.0f} GiB free here"


def check_requests(status: "Status") -> Check:
    """Return a check that fails if the services of a run met unforeseen errors."""
    from spade.app.screen.observe import describe_unforeseen

    met = describe_unforeseen(status)
    return "requests", not met, "; ".join(met) or NONE_MET


def _run(path: Path) -> list[Check]:
    import trio

    from spade.app.screen.observe import read_status
    from spade.app.screen.reach import reach

    return [check_requests(trio.run(read_status, reach(path)))]


def _check_accelerator() -> Iterator[Check]:
    import torch

    if torch.cuda.is_available():
        yield "accelerator", True, f"{torch.cuda.device_count()} that torch sees"
        for index in range(torch.cuda.device_count()):  # numbered as in engine.gpus and learner.gpus
            found = torch.cuda.get_device_properties(index)
            yield f"  GPU {index}", True, f"{found.name}, {found.total_memory / _GIB:.0f} GiB"
    else:
        yield "accelerator", None, "none that torch sees: nano runs on the CPU, larger models need a GPU"


def _check_packages() -> Iterator[Check]:
    from importlib import metadata

    from spade.config import ENGINE_KINDS, TRACKER_KINDS
    from spade.errors import ConfigError

    for package in _PACKAGES:
        try:
            yield package, True, metadata.version(package)
        except metadata.PackageNotFoundError:
            yield package, False, f"missing: pip install {package}"
    for extra in ("deepspeed", *(kind.extra for kind in ENGINE_KINDS.values() if kind.extra), *TRACKER_KINDS):
        try:
            yield _check_extra(extra)
        except ConfigError as error:
            yield extra, None, str(error)


def _check_extra(extra: str) -> Check:
    """Check an optional package. Raises ConfigError if the installed spade is older than this extra."""
    from spade import extras

    found, wanted = extras.find_installed(extra), extras.get_requirement(extra)
    if found is None:
        return extra, None, f"not installed (an extra: {wanted})"
    if extras.is_supported(extra):
        return extra, True, found
    return extra, False, f"{found}; supported is {wanted}: {extras.describe_installing(extra)}"


def _check_suites() -> Iterator[Check]:
    """Yield one check for each suite of `spade eval`.

    It says whether the suite can be played here, or what it lacks.
    """
    from actors.suites import SUITES
    from actors.suites.harnesses import HARNESSES

    for name, suite in {**SUITES, **HARNESSES}.items():
        needs = f"; needs its data, {suite.columns}: --data {name}=FILE" if suite.columns else ""
        try:
            suite.versions(next(iter(suite.protocols.values())))
        except ConfigError as error:
            yield f"suite {name}", None, f"{str(error).removeprefix(f'suite {name}: ')}{needs}"
        else:
            yield f"suite {name}", None if needs else True, needs.removeprefix("; ") or "can be played"


def _check_sandbox() -> Iterator[Check]:
    """Open the sandbox at every tier, and attack the strongest working tier with small programs."""
    import trio

    from actors.sandbox.inside import landlock

    command = shutil.which("bwrap")
    yield "bubblewrap", command is not None, command or "missing: install the package bubblewrap"
    version = landlock.read_version()
    lacking = "missing: needs Linux 5.13 or newer, and landlock among the kernel's lsm= settings"
    yield "landlock", version > 0, f"version {version}" if version else lacking
    yield from trio.run(_check_tiers)


async def _check_tiers() -> list[Check]:
    import msgspec

    from actors.sandbox import open_sandbox
    from actors.sandbox.tiers import LADDER
    from spade.config import load

    found: list[Check] = []
    limits, chosen = load().sandbox, False
    for tier in LADDER:
        try:
            async with open_sandbox(msgspec.structs.replace(limits, tier=tier)) as sandbox:
                found.append((f"sandbox tier {tier}", True, _TIERS[tier] if chosen else f"{_TIERS[tier]}; in use"))
                if not chosen:
                    found += await _attack(sandbox)
                    chosen = True
        except SpadeError as error:
            found.append((f"sandbox tier {tier}", None if chosen else False, f"{_TIERS[tier]}: {error}"))
    return found


async def _attack(sandbox: "Sandbox") -> list[Check]:
    """Return the time to the first observation, and one check for each attack."""
    from actors.sandbox.tiers import ATTACKER, ATTACKS, REFUSED
    from spade.protocol import Faulted

    found: list[Check] = []
    for what, attack in ATTACKS.items():
        started = time.monotonic()
        await sandbox.open("doctor", ATTACKER, 0, 1)
        spawn_ms = 1000 * (time.monotonic() - started)
        answer = await sandbox.step("doctor", 1, attack)
        outcome = f"refused ({answer.kind})" if isinstance(answer, Faulted) else answer.observation
        found.append((f"  {what}", isinstance(answer, Faulted) or outcome.startswith(REFUSED), outcome))
    return [("  first observation", True, f"after {spawn_ms:.0f} ms"), *found]
