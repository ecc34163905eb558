"""Profile a live run from outside: where does its processor time go, and what would a part that takes no time gain?"""

import os
from collections.abc import Awaitable, Callable

import msgspec
import trio

from spade.app.costs.processors import ProcessCost, compute_costs, find_processes, read_times
from spade.app.costs.stacks import CHILDREN, sample_stacks, split_seconds
from spade.app.costs.tokens import TokenRow, compare_tokens
from spade.errors import RunError
from spade.protocol import Status


class PartCost(msgspec.Struct, frozen=True):
    """The processor time of one part of the code, over all processes."""

    part: str
    """Name of the part (`stacks.PARTS`)."""

    seconds: float
    """Processor seconds."""

    share: float
    """Share of the run's processor time."""

    gain: float
    """If this part took no time, the same processor time would do this many times the work."""


class RunProfile(msgspec.Struct, frozen=True):
    """The costs of a run on this machine within a period."""

    seconds: float
    """Length of the period."""

    cores: int
    """Cores of this machine."""

    plays: int
    """Plays that were finished in the period."""

    processes: tuple[ProcessCost, ...]
    """The run's processes on this machine, the most expensive first."""

    elsewhere: int
    """Number of the run's processes that were not found on this machine."""

    parts: tuple[PartCost, ...]
    """The parts of the code, the most expensive first."""

    parts_by_process: dict[str, dict[str, float]]
    """Seconds of each part by the name of the process."""

    others_s: float
    """Processor seconds of all other programs on this machine."""

    waiting_s: float
    """Idle seconds, summed over all cores."""

    own_s: float
    """Processor seconds of this command and of py-spy, since the command started."""

    tokens: tuple[TokenRow, ...]
    """Comparisons of tokens computed with tokens used."""

    missing: str
    """The reason why stacks of some processes are missing, or ""."""

    @property
    def run_s(self) -> float:
        """Return the processor seconds of all processes of the run."""
        return sum(cost.total_s for cost in self.processes)


async def measure_profile(ask: Callable[[], Awaitable[Status]], seconds: int) -> RunProfile:
    """Measure a run for some seconds. `ask` returns its status. Raises RunError if no process of the run is here."""
    began = trio.current_time()
    first, before = await ask(), read_times()
    names = find_processes(first.processes, before)
    if not names:
        raise RunError("no process of this run is on this machine; run this command where its processes are")
    stacks, missing = await sample_stacks(names, seconds)
    after, last = read_times(), await ask()
    costs = compute_costs(names, before, after)
    split = {cost.name: split_seconds(cost.own_s, stacks.get(cost.pid, {})) for cost in costs}
    for cost in costs:
        if cost.children_s > 0:
            split[cost.name][CHILDREN] = cost.children_s
    run_s = sum(cost.total_s for cost in costs)
    own_s = sum(os.times()[:4])
    return RunProfile(
        seconds=trio.current_time() - began,
        cores=os.cpu_count() or 1,
        plays=last.counts.plays - first.counts.plays,
        processes=tuple(costs),
        elsewhere=sum(process.pid not in names for process in first.processes),
        parts=rank_parts(split, run_s),
        parts_by_process=split,
        others_s=max(after.busy_s - before.busy_s - run_s - own_s, 0.0),
        waiting_s=after.idle_s - before.idle_s,
        own_s=own_s,
        tokens=tuple(compare_tokens(first, last)),
        missing=missing,
    )


def rank_parts(split: dict[str, dict[str, float]], run_s: float) -> tuple[PartCost, ...]:
    """Return the cost of each part over all processes, the most expensive first. The gain follows Amdahl's law."""
    sums: dict[str, float] = {}
    for parts in split.values():
        for part, seconds in parts.items():
            sums[part] = sums.get(part, 0.0) + seconds
    return tuple(
        PartCost(part, seconds, seconds / run_s, run_s / (run_s - seconds) if seconds < run_s else float("inf"))
        for part, seconds in sorted(sums.items(), key=lambda item: -item[1])
        if run_s > 0
    )


def describe_profile(found: RunProfile) -> list[str]:
    """Return the profile as lines for people."""
    total_s = found.seconds * found.cores
    lines = [
        f"{found.seconds:.0f} s on {found.cores} cores: {found.plays} plays, {found.run_s:.1f} processor seconds, "
        f"{_divide(found.run_s, found.plays)} s a play",
        f"cores: run {found.run_s / total_s:.0%}, other programs {found.others_s / total_s:.0%}, "
        f"waiting {found.waiting_s / total_s:.0%}, this measurement {found.own_s / total_s:.1%}",
        "",
        f"{'process':<38}{'own s':>8}{'below s':>9}{'of a core':>11}  its greatest parts",
    ]
    for cost in found.processes:
        parts = sorted(found.parts_by_process[cost.name].items(), key=lambda item: -item[1])[:2]
        busy = cost.total_s / found.seconds
        greatest = ", ".join(f"{part} {seconds:.1f}" for part, seconds in parts if seconds >= 0.05)
        lines.append(f"{cost.name:<38}{cost.own_s:>8.1f}{cost.children_s:>9.1f}{busy:>11.0%}  {greatest}")
    if found.elsewhere:
        lines.append(f"not on this machine: {found.elsewhere} processes")
    lines += ["", f"{'part':<38}{'s':>8}{'share':>8}{'s a play':>10}{'gain if it were free':>22}"]
    lines += [
        f"{each.part:<38}{each.seconds:>8.1f}{each.share:>8.0%}"
        f"{_divide(each.seconds, found.plays):>10}{each.gain:>21.2f}×"
        for each in found.parts
    ]
    if found.missing:
        lines.append(f"without stacks: {found.missing}")
    return [*lines, "", *map(str, found.tokens)]


def _divide(seconds: float, plays: int) -> str:
    return f"{seconds / plays:.4f}" if plays else "–"
