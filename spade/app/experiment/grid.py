"""Run the pieces of an experiment, several at a time. Each result is kept as soon as its run is over."""

from collections.abc import Callable
from pathlib import Path

import trio

from spade.app.experiment.folder import ExperimentFolder
from spade.app.experiment.pieces import make
from spade.app.experiment.plan import Piece
from spade.app.experiment.results import RunResult, write_result
from spade.errors import SpadeError, format_placed
from spade.processes.ending import interrupt_at_signal
from spade.progress import show


class Grid:
    """Makes the missing runs of an experiment. A matched run waits for its match."""

    def __init__(
        self, place: ExperimentFolder, results: dict[Piece, RunResult], folder: Path, say: Callable[[str], None]
    ) -> None:
        self._place = place
        self._results = results
        self._folder = folder
        self._say = say
        self._left = [piece for piece in place.experiment.pieces if piece not in results]
        self._failed: set[Piece] = set()
        self._news = trio.Condition()

    async def work(self, at_once: int) -> bool:
        """Make the missing runs, `at_once` at a time. Return True if all succeed.

        A failed run stops only the runs that depend on it. If a signal ends the work, active runs drain, then
        KeyboardInterrupt is raised.
        """
        async with trio.open_nursery() as watch:
            await watch.start(interrupt_at_signal)
            with show("runs", len(self._place.experiment.pieces), lambda: len(self._results)):
                async with trio.open_nursery() as nursery:
                    for _ in range(at_once):
                        nursery.start_soon(self._worker)
            watch.cancel_scope.cancel()
        return not self._failed

    async def _worker(self) -> None:
        while (piece := await self._next()) is not None:
            self._say(f"{piece}: begins")
            try:
                match = self._place.experiment.match(piece)
                result = await make(self._place, piece, self._results[match] if match else None)
                write_result(self._folder, result)
            except (SpadeError, OSError) as error:
                self._say(f"{piece}: {format_placed(error)}")
                self._failed.add(piece)
            else:
                self._results[piece] = result
                self._say(f"{piece}: {result.steps} steps, {result.agent} trajectories of the agent trained")
            async with self._news:
                self._news.notify_all()

    async def _next(self) -> Piece | None:
        """Wait for a run without a match or with a finished match, take it and return it.

        Returns None if no further run can start.
        """
        async with self._news:
            while self._left:
                for piece in self._left:
                    match = self._place.experiment.match(piece)
                    if match in self._failed:
                        self._left.remove(piece)
                        self._failed.add(piece)
                        self._say(f"{piece}: is left out, because its match {match} failed")
                        break
                    if match is None or match in self._results:
                        self._left.remove(piece)
                        return piece
                else:
                    await self._news.wait()
        return None
