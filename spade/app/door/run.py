"""Read a run from Python, whether it is live or finished."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np
import trio
from numpy.typing import NDArray

from replay.inspect.environments import EnvironmentDetail, read_details
from replay.inspect.journal import JournalRows, read_journal
from replay.inspect.plays import read_finished
from replay.ledger.records import PlayRecord
from spade.app.door.command import EvaluationOptions, evaluate
from spade.app.rundir import RunDir
from spade.app.screen.evaluations import MeasuredSuite
from spade.app.screen.observe import read_status
from spade.app.screen.reach import reach
from spade.codec import convert_to_named, unpack_floats, unpack_ids, unpack_mask
from spade.config import Config
from spade.extras import require
from spade.protocol import Status, Trajectory
from spade.returns import is_won

if TYPE_CHECKING:
    import pandas


_READING = Lock()  # a process may open a store once at a time


class FigureTable(dict[str, list[Any]]):
    """Columns of equal length by name, in the form that pandas and Arrow take. None stands for an unmeasured figure."""

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the table as a data frame. Raises ConfigError if pandas is not installed."""
        require("pandas")
        import pandas

        return pandas.DataFrame(self)


class FinishedPlay(NamedTuple):
    """A finished play. The arrays are empty if the run deleted the play's tokens (replay.retain_s)."""

    id: str
    """Id of the play."""

    environment: str
    """Id of its environment."""

    skill: str
    """Skill of its environment."""

    hinted: bool
    """True if the player read the hint."""

    won: bool
    """True if the return is at least `play.win_return`."""

    episode_return: float
    """Return of the play."""

    turns: int
    """Number of turns."""

    tokens: NDArray[np.int32]
    """Token ids that the model read and sampled, in order."""

    sampled: NDArray[np.bool_]
    """For each token: True if the model sampled it."""

    logprobs: NDArray[np.float32]
    """Log-probability of each sampled token under the distribution that it was sampled from."""

    versions: NDArray[np.int64]
    """For each sampled token: the version of the policy that sampled it."""


class OpenedRun:
    """Reads a run directory and changes nothing. Each property reads the files anew, so it follows a live run."""

    def __init__(self, run: RunDir) -> None:
        self._run = run
        self.path: Path = run.path
        """The run directory."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    @property
    def config(self) -> Config:
        """Return the run's settings."""
        return self._run.config()

    @property
    def status(self) -> Status:
        """Return the status of the live run, or the last status of a run that is down."""
        return trio.run(read_status, reach(self._run))

    @property
    def journal(self) -> JournalRows:
        """Return the rows of `metrics.jsonl` by kind: steps, evaluations, diversities and events."""
        try:
            return read_journal(self._run.metrics_path)
        except FileNotFoundError:
            return JournalRows()

    @property
    def metrics(self) -> FigureTable:
        """Return the figures of each learner step (docs/metrics.md). Nested names look like `skills/S/regret`."""
        rows = [dict(_flatten(convert_to_named(row))) for row in self.journal.steps]
        names = dict.fromkeys(name for row in rows for name in row)
        return FigureTable({name: [row.get(name) for row in rows] for name in names})

    @property
    def environments(self) -> list[EnvironmentDetail]:
        """Return all environments with their programs, the oldest first."""
        with _READING:
            return [] if self._is_new() else read_details(self._run.store)

    def plays(
        self,
        *,
        skill: str | None = None,
        environment: str | None = None,
        hinted: bool | None = None,
        won: bool | None = None,
    ) -> list[FinishedPlay]:
        """Return the finished plays that meet all given conditions. All their tokens come into memory."""
        if self._is_new():
            return []
        win_return = self.config.play.win_return

        def is_chosen(play: PlayRecord, its_skill: str) -> bool:
            return (
                skill in (None, its_skill)
                and environment in (None, play.environment)
                and hinted in (None, play.hinted)
                and won in (None, is_won(play.episode_return, win_return))
            )

        with _READING:
            return [
                FinishedPlay(
                    play.id, play.environment, its_skill, play.hinted, is_won(play.episode_return, win_return),
                    play.episode_return, play.turns, *_list_arrays(tokens),
                )
                for play, its_skill, tokens in read_finished(self._run.store, is_chosen)
            ]  # fmt: skip

    def _is_new(self) -> bool:
        """Return True if the run is up and its replay service has not made the store yet."""
        return not (self._run.store / "data.mdb").exists() and bool(self._run.holders())

    def evaluate(self, suite: str, **options: Unpack[EvaluationOptions]) -> MeasuredSuite:
        """Measure a policy of this run on a suite, by default the newest policy. See `evaluate`."""
        return evaluate(self.path, suite, **options)


def open_run(path: Path | str) -> OpenedRun:
    """Open a run directory, live or finished, to read it. Raises RunError if no run was ever started there."""
    return OpenedRun(RunDir(Path(path)).require())


def _list_arrays(tokens: Trajectory | None) -> tuple[NDArray[Any], ...]:
    """Return the arrays of a play: tokens, sampled, logprobs, versions."""
    tokens = tokens or Trajectory(b"", (), b"", (), 1.0)
    versions = np.repeat(*np.array(tokens.versions, dtype=np.int64).reshape(-1, 2).T)
    return unpack_ids(tokens.ids), unpack_mask(tokens).view(np.bool_), unpack_floats(tokens.logprobs), versions


def _flatten(value: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, each in value.items():
        if isinstance(each, Mapping):
            yield from _flatten(each, (*path, name))
        else:
            yield "/".join((*path, name)), each
