"""Let each machine of a cluster inspect itself, and judge whether it is fit (`spade doctor --cluster`)."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from spade.text import as_line

if TYPE_CHECKING:
    from spade.app.screen.console import Screen
    from spade.cluster.needs import Machine
    from spade.config import Config

CLOCK_S = 2.0  # largest tolerated clock error; beyond it, logs of several machines do not line up
ANSWER_S = 120.0  # deadline for a machine, which may have to load torch from a network file system


class MachineReport(msgspec.Struct, frozen=True):
    """A machine's report about itself."""

    version: str
    """Version of spade."""
    protocol: int
    """Version of spade's message protocol."""
    gpus: int
    """Number of GPUs that torch sees, or 0 if the cluster knows of no GPU here."""
    sees_run: bool | None
    """True if the machine sees the run's own directory, None if no run was named."""
    tier: str
    """Strongest sandbox tier that works, "" if all tiers fail."""
    lacking: str
    """The reason why no sandbox tier works, or ""."""
    began: float
    """The machine's clock when it was asked, s."""
    now: float
    """The machine's clock when it answered, s."""


def look(gpus: int, run: str, record: bytes) -> MachineReport:
    """Inspect this machine. `gpus` is the cluster's count of GPUs here, `record` the content of the run's run.json."""
    from importlib import metadata

    import trio

    from spade.cluster.post import has_run
    from spade.protocol import PROTOCOL_VERSION

    began = time.time()
    tier, lacking = trio.run(_find_tier)
    return MachineReport(
        version=metadata.version("spade-rl"),
        protocol=PROTOCOL_VERSION,
        gpus=_count_gpus() if gpus else 0,
        sees_run=has_run(Path(run), record) if run else None,
        tier=tier,
        lacking=lacking,
        began=began,
        now=time.time(),
    )


async def _find_tier() -> tuple[str, str]:
    """Return the strongest sandbox tier that works, and "". If all tiers fail, return "" and the reason."""
    from actors.sandbox import open_sandbox
    from actors.sandbox.tiers import LADDER
    from spade.config import load
    from spade.errors import SpadeError

    try:
        async with open_sandbox(load().sandbox) as sandbox:
            return LADDER[sandbox.tier - 1], ""
    except SpadeError as error:
        return "", str(error)


def _count_gpus() -> int:
    import os

    import torch

    os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # Ray hides all GPUs from a task that did not ask for any
    return torch.cuda.device_count()


def check_all_fit(screen: "Screen", run: Path | None, cluster: str) -> bool:
    """Print a line for each machine. Returns True if all are fit for the run, or for nano if no run is given.

    Raises RunError if `run` is not a run. Raises ConfigError or RunError as `join_cluster` does.
    """
    from spade.app.rundir import RunDir
    from spade.app.supervisor.places import join_cluster
    from spade.config import load

    opened = None if run is None else RunDir(run).require()
    config = load() if opened is None else opened.config()
    record = b"" if opened is None else opened.record_path.read_bytes()
    place = "" if opened is None else str(opened.path)
    fit = True
    with join_cluster(cluster) as machines:
        for machine, sent, arrived, answer in machines.ask_each(look, (place, record), ANSWER_S):
            faults = [answer] if isinstance(answer, str) else list_faults(machine, answer, sent, arrived, config)
            line = "; ".join(faults) or describe_machine(machine, answer)
            screen.tell(("no  ", "red") if faults else ("ok  ", "green"), f"{machine.host}  {as_line(line)}")
            fit &= not faults
    return fit


def describe_machine(machine: "Machine", found: MachineReport) -> str:
    """Describe a machine that is fit, in one line."""
    from spade.cluster.needs import MachineShare

    share = MachineShare(machine.resources.get("CPU", 0.0), machine.gpus, 0, machine.own())
    unseen = "does not see the run directory, which only the learner needs"
    seen = {None: "", True: "sees the run directory", False: unseen}
    sandbox = f"sandbox {found.tier}" if found.tier else "no sandbox, which only env-runners need"
    return "; ".join(filter(None, (f"spade {found.version}", str(share), seen[found.sees_run], sandbox)))


def list_faults(machine: "Machine", found: MachineReport, sent: float, arrived: float, config: "Config") -> list[str]:
    """List the reasons why a machine is unfit. Our clock said `sent` at the request, `arrived` at the answer (s)."""
    from importlib import metadata

    from spade.cluster.needs import compute_needs
    from spade.protocol import PROTOCOL_VERSION

    faults = []
    if (found.version, found.protocol) != (metadata.version("spade-rl"), PROTOCOL_VERSION):
        faults.append(
            f"has spade {found.version} with protocol {found.protocol}, this machine {metadata.version('spade-rl')} "
            f"with {PROTOCOL_VERSION}; install the same version on all machines"
        )
    if found.gpus < machine.gpus:
        faults.append(f"the cluster promises {machine.gpus} GPUs, and torch sees {found.gpus}")
    if found.sees_run is False and machine.holds(compute_needs(config, "learner")):
        faults.append(
            "does not see the run directory, and the learner may be placed here; share the directory, or pin the "
            "learner to another machine"
        )
    if not found.tier and machine.holds(compute_needs(config, "env-runner")):
        faults.append(found.lacking)
    # The machine's clock is ahead of ours by at least `now - arrived`, and by at most `began - sent`.
    off = max(found.now - arrived, sent - found.began)
    if off > CLOCK_S:
        faults.append(f"its clock is off by {off:.0f} s or more; run a time daemon on all machines")
    return faults
