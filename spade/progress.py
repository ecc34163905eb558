"""The progress of long work. A command on a terminal displays it. In every other process it costs nothing."""

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TypeVar

Item = TypeVar("Item")
Display = Callable[[str, float | None, Callable[[], float]], AbstractContextManager[object]]
"""Displays a piece of work while its block runs. Takes the arguments of `show`."""

_display: Display | None = None


def set_display(display: Display) -> None:
    """Display the work of this process from now on."""
    global _display
    _display = display


def is_displayed() -> bool:
    """Return True if this process displays its work, so that lines about it may be left out."""
    return _display is not None


def show(what: str, total: float | None, count: Callable[[], float]) -> AbstractContextManager[object]:
    """Show the progress of `what` while the block runs: `count()` of `total`. If the total is unknown, it is None."""
    return nullcontext() if _display is None else _display(what, total, count)


def follow(items: Iterable[Item], what: str, total: int | None = None) -> Iterator[Item]:
    """Yield the items, and show how many of them are done, of `total` or of len(items)."""
    done = 0
    with show(what, len(items) if total is None and isinstance(items, Sized) else total, lambda: done):
        for item in items:
            yield item
            done += 1


def show_writing(what: str, path: Path, total: int) -> AbstractContextManager[object]:
    """Show the progress of writing a file or folder of `total` bytes while the block runs."""
    return show(what, total, lambda: measure_size(path))


def measure_size(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder. Files that come and go meanwhile are left out."""
    size = 0
    for each in (path, *path.rglob("*")):
        with suppress(OSError):
            size += each.stat().st_size if each.is_file() else 0
    return size
