"""Shared by all benches: the command line, rounds in turns, medians, tables, and JSON with the machine's conditions."""

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import TypeVar

T = TypeVar("T")


def command(document: str | None, **defaults: object) -> argparse.ArgumentParser:
    """A parser with an option for each default, of its type: a list takes several words, None a path."""
    parser = argparse.ArgumentParser(description=document, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        one = default[0] if isinstance(default, list) else default
        kind = Path if one is None else type(one)
        several = "+" if isinstance(default, list) else None
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, default=default, nargs=several)
    return parser


def in_turns(jobs: Mapping[str, Callable[[int], T]], rounds: int) -> dict[str, list[T]]:
    """The results of each job by round, of which it is given the number.

    Jobs take turns, so that what else the machine does falls on all alike.
    """
    taken: dict[str, list[T]] = {name: [] for name in jobs}
    for turn in range(rounds):
        for name, job in jobs.items():
            taken[name].append(job(turn))
            print(f"round {turn + 1} of {rounds}: {name}", file=sys.stderr, flush=True)
    return taken


def medians(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Of each figure over the rounds."""
    return {key: median(row[key] for row in rows) for key in rows[0]}


def spread(values: list[float]) -> dict[str, float]:
    return {"p50": median(values), "p99": quantiles(values, n=100)[98]}


@contextmanager
def clocked(into: list[float]) -> Iterator[None]:
    """Milliseconds of the block."""
    began = time.perf_counter()
    yield
    into.append(1_000 * (time.perf_counter() - began))


def columns(results: Mapping[str, Mapping[str, float]], rows: Mapping[str, tuple[str, str]], wide: int = 16) -> str:
    """A table with a column for each result. `rows`: the key and the format of each row, by its label."""
    lines = [" " * 28 + "".join(f"{name:>{wide}}" for name in results)]
    for label, (key, form) in rows.items():
        lines.append(f"{label:<28}" + "".join(f"{one[key]:>{wide}{form}}" for one in results.values()))
    return "\n".join(lines)


def sections(figures: Mapping[str, Mapping[str, float]]) -> str:
    """A figure a line, below the name of its section."""
    lines = [[name, *(f"  {key:<28}{value:10.3g}" for key, value in row.items())] for name, row in figures.items()]
    return "\n".join(line for section in lines for line in section)


def conclude(out: Path | None, figures: Mapping[str, object], table: str) -> None:
    """Print the table; write the figures to `out`, and the conditions they were taken under as `machine`."""
    print(table)
    machine = {"processor": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()}
    if out is not None:
        out.write_text(json.dumps({**figures, "machine": machine}, indent=2) + "\n")
