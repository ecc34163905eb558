"""Find the runs that a person may have meant by a path without a run."""

import os
from collections.abc import Iterator
from contextlib import suppress
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path

_CONFIG = "config.toml"  # the file that makes a folder a run
_RUNS = "runs"  # where `spade up` puts runs by default
_LEAST_ALIKE = 0.5
_MOST_NAMES = 2_000  # of a folder that are looked at
_MOST_TOLD = 3


def did_you_mean(path: Path | str) -> str:
    """Return "did you mean A or B? " with the closest runs near a path, or "" if there is none.

    The runs are in the path itself, beside it, in a folder `runs` beside it, and in `runs` of the working directory.
    """
    asked = Path(os.path.abspath(path))
    inside = dict.fromkeys(_runs_in(asked), 1.0)
    around = (asked.parent, asked.parent / _RUNS, Path.cwd() / _RUNS)
    alike = {run: _likeness(asked.name, run.name) for folder in around for run in _runs_in(folder)}
    near = {run: score for run, score in alike.items() if score >= _LEAST_ALIKE and run != asked}
    best = sorted({**near, **inside}.items(), key=lambda each: (-each[1], str(each[0])))[:_MOST_TOLD]
    return f"did you mean {' or '.join(_shown(run) for run, _ in best)}? " if best else ""


def _runs_in(folder: Path) -> Iterator[Path]:
    with suppress(OSError, ValueError), os.scandir(folder) as entries:
        for entry in islice(entries, _MOST_NAMES):
            with suppress(OSError):
                if os.path.isfile(os.path.join(entry.path, _CONFIG)):
                    yield Path(entry.path)


def _likeness(asked: str, name: str) -> float:
    return SequenceMatcher(None, asked.casefold()[:200], name.casefold()[:200]).ratio()


def _shown(run: Path) -> str:
    """Return the shortest way to write a run's path."""
    return str(run.relative_to(Path.cwd())) if run.is_relative_to(Path.cwd()) else str(run)
