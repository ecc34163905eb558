"""The memory of a whole run, process by process: proportional shares of pages, looked at twice a second.

    python -m tests.bench.run_memory smol --steps 4 --out run_memory.json --set learner.microbatch_tokens=256

A column is the whole run or a part of it. "at the peak" is the share at the moment at which the whole run has most.
"own peak" is the most that the part ever had. CPU seconds are what the processes had when they were last seen. The
programs are all processes below an env-runner. The run has a new folder, which is deleted.
"""

import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from spade.app.costs.processors import ProcessTimes, read_launch, read_times
from tests.bench.harness import columns, command, conclude
from tests.bench.nano_runs import SPADE, steps

PERIOD_S = 0.5
GB = 1e9
PROGRAMS = "programs"
ROWS = {
    "at the peak, GB": ("peak", ".2f"),
    "own peak, GB": ("own", ".2f"),
    "median, GB": ("median", ".2f"),
    "processes at the peak": ("processes", ".0f"),
    "CPU seconds": ("cpu", ".1f"),
}


def descendants(root: int, processes: Mapping[int, ProcessTimes]) -> list[int]:
    """`root` and the processes below it, parents first."""
    found, fresh = [root], [root]
    while fresh:
        fresh = [pid for pid, times in processes.items() if times.parent in fresh]
        found += fresh
    return found


def share(pid: int) -> int:
    """Bytes of the process's proportional share, 0 if it has gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1_024 for line in lines if line.startswith("Pss:"))


class Roles:
    """The part of a run to which each process belongs."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}

    def of(self, pid: int, parent: int) -> str:
        if pid not in self._known:
            launch = read_launch(pid)
            above = self._known.get(parent, "command")
            self._known[pid] = launch.role if launch else (PROGRAMS if above in (PROGRAMS, "env-runner") else above)
        return self._known[pid]


def sample(root: int, roles: Roles) -> tuple[Counter[str], Counter[str], dict[int, tuple[str, float]]]:
    """Bytes and processes by part, and each process with its part and CPU seconds."""
    bytes_, count, cpu = Counter[str](), Counter[str](), {}
    processes = read_times().processes
    for pid in descendants(root, processes):
        if pid not in processes:
            continue
        part = roles.of(pid, processes[pid].parent)
        bytes_[part] += share(pid)
        count[part] += 1
        cpu[pid] = part, processes[pid].own_s
    return bytes_, count, cpu


def watch(process: subprocess.Popen) -> tuple[list[Counter[str]], list[Counter[str]], dict[int, tuple[str, float]]]:
    roles, sizes, counts, cpu = Roles(), [], [], {}
    while process.poll() is None:
        bytes_, count, spent = sample(process.pid, roles)
        sizes.append(bytes_)
        counts.append(count)
        cpu |= spent
        time.sleep(PERIOD_S)
    return sizes, counts, cpu


def measure(recipe: str, count: int, settings: list[str]) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        words = [word for setting in settings for word in ("--set", setting)]
        up = [*SPADE, "up", recipe, "--headless", "--run", str(run), "--steps", str(count), *words]
        with (Path(folder) / "said").open("wb") as said:
            process = subprocess.Popen(up, stdout=said, stderr=subprocess.STDOUT)
            sizes, counts, cpu = watch(process)
        if process.returncode:
            raise SystemExit((Path(folder) / "said").read_text())
        rows = steps(run)
    totals = [sum(each.values()) for each in sizes]
    at = totals.index(max(totals))
    parts = sorted({part for each in sizes for part in each}, key=lambda part: -sizes[at][part])
    figures = {
        part: {
            "peak": sizes[at][part] / GB,
            "own": max(each[part] for each in sizes) / GB,
            "median": sorted(each[part] for each in sizes)[len(sizes) // 2] / GB,
            "processes": counts[at][part],
            "cpu": sum(spent for where, spent in cpu.values() if where == part),
        }
        for part in parts
    }
    together = {
        "peak": totals[at] / GB, "own": totals[at] / GB, "median": sorted(totals)[len(totals) // 2] / GB,
        "processes": counts[at].total(), "cpu": sum(spent for _, spent in cpu.values()),
    }  # fmt: skip
    print("seconds of each learner step:", *(f"{row['step_s']:.1f}" for row in rows))
    return {"whole": together, **figures}


def main() -> None:
    parser = command(__doc__, steps=4, out=Path("run_memory.json"))
    parser.add_argument("recipe")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    figures = measure(arguments.recipe, arguments.steps, arguments.settings)
    conclude(arguments.out, figures, columns(figures, ROWS, wide=12))


if __name__ == "__main__":
    main()
