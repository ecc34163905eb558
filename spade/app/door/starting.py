"""Start a run from Python, as `spade up` does."""

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from spade.app.door.command import Command
from spade.app.door.run import OpenedRun
from spade.app.rundir import RunDir, choose_run
from spade.app.supervisor.stopping import DRAINS
from spade.errors import RunError
from spade.text import quote

_LOOK_S = 0.05


class StartedRun(OpenedRun):
    """A run that this process started. The end of a `with` block, or of this process, drains and stops the run."""

    def __init__(self, run: RunDir, command: Command) -> None:
        super().__init__(run)
        self._command = command

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.stop()
        except RunError as failure:
            if error is None:
                raise
            error.add_note(f"the run failed, too: {failure}")
        else:
            if error is not None:
                error.add_note(f"{self.path}: the run was stopped; `spade up --run {quote(self.path)}` resumes it")

    @property
    def up(self) -> bool:
        """Return True until the run has ended."""
        return not self._command.ended

    def wait(self, limit_s: float | None = None) -> None:
        """Wait until a limit ends the run, for example `steps`.

        Raises RunError if the run failed, or if it is still up after `limit_s`.
        """
        try:
            error = self._command.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise RunError(f"{self.path}: is still up after {limit_s:g} s") from None
        if error is not None:
            raise error

    def stop(self) -> None:
        """Drain the run and stop it. Raises RunError if it failed before, or if it does not end."""
        self._command.stop()
        self.wait(DRAINS * self.config.supervise.drain_s)


def start(
    config: str = "nano",
    *,
    run: Path | str | None = None,
    steps: int | None = None,
    rollouts: int | None = None,
    duration: str | None = None,
    settings: Mapping[str, object] | None = None,
) -> StartedRun:
    """Start or resume a run as `spade up` does, and return when its processes start.

    The run ends after this number of learner `steps` or `rollouts`, or after a `duration` like "10m". `run` is its
    directory, by default runs/CONFIG. `settings` are changed settings, for example {"learner.lr": 1e-4}. Raises
    RunError if the command refuses to start.
    """
    opened = RunDir(choose_run(config, None if run is None else Path(run)))
    limits = {"steps": steps, "rollouts": rollouts, "for": duration}
    command = Command("up --headless", config, run=opened.path, settings=settings, **limits)
    started = StartedRun(opened, command)
    try:
        while started.up:
            if opened.exists and any(holder.pid == command.pid for holder in opened.holders().values()):
                return started
            time.sleep(_LOOK_S)
    except BaseException:
        command.stop()
        command.wait()
        raise
    started.wait()
    return started
