"""The machines of a cluster, each as it sees itself (`spade doctor --cluster ray`)."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from spade.text import line

if TYPE_CHECKING:
    from spade.app.screen.console import Screen
    from spade.cluster.needs import Machine
    from spade.config import Config

CLOCK_S = 2.0  # beyond this, logs and figures of several machines do not line up
ANSWER_S = 120.0  # a machine may have to start Python, and to load torch from a network file system


class Found(msgspec.Struct, frozen=True):
    """A machine's answer.

    version     spade's
    protocol    of its messages
    gpus        those that torch sees; 0 where none were promised
    sees_run    True if the run directory is the run's own, None if there is none to look for
    walls       the tier of the sandbox that holds, "" where none does
    lacking     the reason for that
    began, now  its clock when it was asked and when it answered, s
    """

    version: str
    protocol: int
    gpus: int
    sees_run: bool | None
    walls: str
    lacking: str
    began: float
    now: float


def look(gpus: int, run: str, record: bytes) -> Found:
    """Look at this machine. `gpus`: those that Ray counts here, `record`: the content of the run's run.json."""
    from importlib import metadata

    import trio

    from spade.cluster.post import sees
    from spade.protocol import PROTOCOL_VERSION

    began = time.time()
    walls, lacking = trio.run(_walls)
    return Found(
        version=metadata.version("spade-rl"),
        protocol=PROTOCOL_VERSION,
        gpus=_gpus() if gpus else 0,
        sees_run=sees(Path(run), record) if run else None,
        walls=walls,
        lacking=lacking,
        began=began,
        now=time.time(),
    )


async def _walls() -> tuple[str, str]:
    from actors.sandbox import open_sandbox
    from actors.sandbox.tiers import LADDER
    from spade.config import load
    from spade.errors import SpadeError

    try:
        async with open_sandbox(load().sandbox) as sandbox:
            return LADDER[sandbox.tier - 1], ""
    except SpadeError as error:
        return "", str(error)


def _gpus() -> int:
    import os

    import torch

    os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # Ray hides all from a task that asked for none
    return torch.cuda.device_count()


def all_fit(screen: "Screen", run: Path | None) -> bool:
    """Print a line for each machine; returns True if all are fit for the run, or for nano without one.

    Raises ConfigError, RunError.
    """
    from spade.app.rundir import RunDir
    from spade.cluster.on_ray import joined
    from spade.config import load

    opened = None if run is None else RunDir(run).require()
    config = load() if opened is None else opened.config()
    record = b"" if opened is None else opened.record_path.read_bytes()
    place = "" if opened is None else str(opened.path)
    fit = True
    with joined() as cluster:
        for machine, sent, arrived, answer in cluster.ask_each(look, (place, record), ANSWER_S):
            faults = [answer] if isinstance(answer, str) else faults_of(machine, answer, sent, arrived, config)
            told = "; ".join(faults) or described(machine, answer)
            screen.tell(("no  ", "red") if faults else ("ok  ", "green"), f"{machine.host}  {line(told)}")
            fit &= not faults
    return fit


def described(machine: "Machine", found: Found) -> str:
    """A machine's line, where it is fit."""
    from spade.cluster.needs import MachineShare

    share = MachineShare(machine.resources.get("CPU", 0.0), machine.gpus, 0, machine.own())
    unseen = "does not see the run directory, which only the learner needs"
    seen = {None: "", True: "sees the run directory", False: unseen}
    sandbox = f"sandbox {found.walls}" if found.walls else "no sandbox, which only env-runners need"
    return "; ".join(filter(None, (f"spade {found.version}", str(share), seen[found.sees_run], sandbox)))


def faults_of(machine: "Machine", found: Found, sent: float, arrived: float, config: "Config") -> list[str]:
    """The reasons why a machine is unfit. `sent`, `arrived`: when it was asked and had answered by our clock, s."""
    from importlib import metadata

    from spade.cluster.needs import needs
    from spade.protocol import PROTOCOL_VERSION

    faults = []
    if (found.version, found.protocol) != (metadata.version("spade-rl"), PROTOCOL_VERSION):
        faults.append(
            f"has spade {found.version} with protocol {found.protocol}, this machine {metadata.version('spade-rl')} "
            f"with {PROTOCOL_VERSION}; install the same on all"
        )
    if found.gpus < machine.gpus:
        faults.append(f"Ray promises {machine.gpus} GPUs, and torch sees {found.gpus}")
    if found.sees_run is False and machine.holds(needs(config, "learner")):
        faults.append(
            "does not see the run directory, and the learner may be placed here; share it, or pin the learner"
        )
    if not found.walls and machine.holds(needs(config, "env-runner")):
        faults.append(found.lacking)
    # Its clock is ahead of ours by at least `now - arrived`, and by at most `began - sent`.
    off = max(found.now - arrived, sent - found.began)
    if off > CLOCK_S:
        faults.append(f"its clock is off by {off:.0f} s or more; run a time daemon on all machines")
    return faults
