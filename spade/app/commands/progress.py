"""The progress bar of a long command, with an estimate of the time left."""

import sys
import time
from collections.abc import Callable, Iterable

from rich.console import RenderableType
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from spade.app.screen.console import open_screen
from spade.text import as_line

_DELAY_S = 1.0  # short work gets no bar
_RATE_S = 3600.0  # the estimate uses the mean rate over this many seconds


class ProgressBar(Progress):
    """A bar that calls `count` whenever it is drawn. Lines that are printed meanwhile appear above the bar."""

    def __init__(self, what: str, total: float | None, count: Callable[[], float]) -> None:
        self._count, self._due = count, time.monotonic() + _DELAY_S
        timed = [TaskProgressColumn(), TimeRemainingColumn(compact=True), TextColumn("left")]
        super().__init__(
            TextColumn("{task.description}", markup=False),
            BarColumn(None),
            *([TimeElapsedColumn()] if total is None else timed),
            console=open_screen(),
            transient=True,
            refresh_per_second=4,
            speed_estimate_period=_RATE_S,
            redirect_stderr=sys.stderr.isatty(),
        )
        self.add_task(as_line(what)[:24], total=total)

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the bar with the present count, or nothing during the first `_DELAY_S` seconds."""
        if time.monotonic() >= self._due:
            for task in self.task_ids:  # one task, or no task while the bar is being made
                self.update(task, completed=self._count())
            yield from super().get_renderables()
