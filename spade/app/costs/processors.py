"""The processor time of a run's processes on this machine, as the kernel counts it. Everything comes from /proc."""

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from spade.decoding import UnreadableError, try_decode
from spade.processes.entry import Launch
from spade.protocol import Process

_PROC = Path("/proc")
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")

_launches: msgspec.json.Decoder[Launch] = msgspec.json.Decoder(Launch)


class ProcessTimes(NamedTuple):
    """The processor time of one process since its start."""

    parent: int
    """Process id of its parent."""

    own_s: float
    """Seconds of its own threads."""

    reaped_s: float
    """Seconds of its children that have ended, and of their children."""


class MachineTimes(NamedTuple):
    """The processor time of this machine at one moment, since its start."""

    busy_s: float
    """Seconds of work, all cores together."""

    idle_s: float
    """Idle seconds, all cores together."""

    processes: Mapping[int, ProcessTimes]
    """The living processes by their ids."""


class ProcessCost(msgspec.Struct, frozen=True):
    """The processor time of one process of a run within a period."""

    name: str
    """Name of the process. A supervisor has the name that its processes report (`Process.supervisor`)."""

    pid: int
    """Process id."""

    own_s: float
    """Seconds of its own threads."""

    children_s: float
    """Seconds of all unnamed processes below it, such as sandboxed programs."""

    @property
    def total_s(self) -> float:
        """Return all seconds of the process and of those below it."""
        return self.own_s + self.children_s


def read_times() -> MachineTimes:
    """Read the processor time of this machine and of all its processes."""
    names = (_PROC / "stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    user, nice, system, idle, iowait, irq, softirq, steal = (int(number) * _TICK_S for number in names[1:9])
    processes = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                processes[int(folder.name)] = parse_times((folder / "stat").read_text(errors="replace"))
    return MachineTimes(user + nice + system + irq + softirq + steal, idle + iowait, processes)


def parse_times(stat: str) -> ProcessTimes:
    """Parse a /proc/PID/stat. The name in its parentheses may contain spaces and parentheses."""
    fields = stat.rpartition(")")[2].split()
    own, system, reaped, reaped_system = (int(number) * _TICK_S for number in fields[11:15])
    return ProcessTimes(int(fields[1]), own + system, reaped + reaped_system)


def find_processes(reported: Iterable[Process], times: MachineTimes) -> dict[int, str]:
    """Return the names of a run's processes on this machine by their ids. Supervisors are among them.

    A reported id may belong to a process of another machine. So the process's command line must state the same name.
    """
    found: dict[int, str] = {}
    for process in reported:
        launch = read_launch(process.pid) if process.pid in times.processes else None
        if launch is not None and launch.name == process.name:
            found[process.pid] = process.name
            found.setdefault(times.processes[process.pid].parent, process.supervisor)
    return found


def read_launch(pid: int) -> Launch | None:
    """Return the launch of a role process (`spade.processes.entry`), or None for any other process."""
    try:
        return try_decode(_launches.decode, (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")[-3])
    except (OSError, IndexError, UnreadableError):
        return None


def compute_costs(names: Mapping[int, str], before: MachineTimes, after: MachineTimes) -> list[ProcessCost]:
    """Return the costs of the named processes between two moments, the greatest first.

    A process that started in between counts from its start. A process that ended in between is left out.
    """
    start, end = _sum_by_owner(names, before), _sum_by_owner(names, after)
    costs = [
        ProcessCost(names[pid], pid, own_s - start.get(pid, (0, 0))[0], children_s - start.get(pid, (0, 0))[1])
        for pid, (own_s, children_s) in end.items()
    ]
    return sorted(costs, key=lambda cost: -cost.total_s)


def _sum_by_owner(names: Mapping[int, str], times: MachineTimes) -> dict[int, tuple[float, float]]:
    """Return (own_s, children_s) of each named process. An unnamed process belongs to its nearest named ancestor."""
    supervisors = {times.processes[pid].parent for pid in names if pid in times.processes}
    sums = {pid: [times.processes[pid].own_s, 0.0] for pid in names if pid in times.processes}
    for pid, spent in times.processes.items():
        owner = pid
        while owner in times.processes and owner not in names:
            owner = times.processes[owner].parent
        if owner in sums and pid not in supervisors:  # a supervisor's children are role processes
            sums[owner][1] += spent.reaped_s + (0.0 if pid == owner else spent.own_s)
    return {pid: (own_s, children_s) for pid, (own_s, children_s) in sums.items()}
