"""Nano runs of a few seeds, end to end: what changed from the first learner steps to the last.

    python -m tests.bench.nano_runs --out runs/bench --seeds 0 1 2 --minutes 10

Each run is a real `spade up --headless` of a recipe (nano unless --recipe names another), one after the other. Held-out
win rates are `spade nano report` of the shipped checkpoint before and of the run's newest policy afterwards. Prints a
table; the figures go to OUT/nano_runs.json.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

from spade.config import load
from tests.bench.harness import command, conclude

WINDOW = 10  # learner steps at either end that are averaged
SPADE = [sys.executable, "-m", "spade.app.cli"]
GAUGES = ("validity", "learnable_share", "win_rate_unhinted", "win_rate_hinted", "regret", "designer_reward")
TOTALS = ("learner_step", "plays", "environments", "designer_groups", "wasted_share_agent", "wasted_share_designer")


def up(recipe: str, folder: Path, minutes: float, settings: Iterable[str], **options: Any) -> None:
    """Self-play for `minutes`, in a process tree of its own."""
    words = [word for setting in settings for word in ("--set", setting)]
    command = [*SPADE, "up", recipe, "--headless", "--run", str(folder), "--for", f"{minutes}m", *words]
    subprocess.run(command, check=True, **options)


def held_out(model: str) -> dict:
    """`spade nano report` as a dict."""
    done = subprocess.run([*SPADE, "nano", "report", model, "--json"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def steps(folder: Path) -> list[dict]:
    """The rows of the learner steps."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if row["kind"] == "step"]


def ends(rows: list[dict], name: str) -> tuple[float, float]:
    """Mean of a gauge over the first and the last steps that have it."""
    values = [row[name] for row in rows if row[name] is not None]
    return fmean(values[:WINDOW]), fmean(values[-WINDOW:])


def measure(folder: Path) -> dict:
    """All figures of one run."""
    rows = steps(folder)
    return {
        "gauges": {name: ends(rows, name) for name in GAUGES},
        "totals": {name: rows[-1][name] for name in TOTALS},
        "held_out": held_out(str(folder)),
    }


def table(before: dict, runs: dict[int, dict]) -> str:
    """The figures for a person: first → last."""
    lines = [" " * 22 + "".join(f"seed {seed:<15}" for seed in runs)]
    for name in GAUGES:
        cells = (run["gauges"][name] for run in runs.values())
        lines.append(f"{name:<22}" + "".join(f"{first:.3f} → {last:<12.3f}" for first, last in cells))
    for name in TOTALS:
        lines.append(f"{name:<22}" + "".join(f"{run['totals'][name]:<20.4g}" for run in runs.values()))
    for name in ("unhinted", "hinted", "valid"):
        start = before[name]
        lines.append(f"held out, {name}: {start['mean']:.3f} ± {start['error']:.3f} before")
        cells = (run["held_out"][name] for run in runs.values())
        lines.append(" " * 22 + "".join(f"{rate['mean']:.3f} ± {rate['error']:<12.3f}" for rate in cells))
    return "\n".join(lines)


def main() -> None:
    parser = command(__doc__, out=Path("runs/bench"), seeds=[0, 1, 2], minutes=10.0, recipe="nano")
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    arguments = parser.parse_args()
    before = held_out(load(arguments.recipe).model.path)
    runs = {}
    for seed in arguments.seeds:
        folder = arguments.out / f"seed-{seed}"
        up(arguments.recipe, folder, arguments.minutes, (f"run.seed={seed}", *arguments.settings))
        runs[seed] = measure(folder)
    result = {
        "recipe": arguments.recipe,
        "minutes": arguments.minutes,
        "settings": arguments.settings,
        "before": before,
        "runs": runs,
    }
    conclude(arguments.out / "nano_runs.json", result, table(before, runs))


if __name__ == "__main__":
    main()
