"""What the service sees go by and does not store: rates, who is connected, and how the supervisors' children are."""

from collections.abc import Collection

import msgspec

from replay.statistics import Meter
from replay.status import Seen
from spade.protocol import (
    Hello,
    Process,
    RejectCandidate,
    Request,
    SubmitEnvironment,
    SubmitPlay,
    Trajectory,
)

Gauges = dict[str, dict[str, float]]
"""What each process said of itself with its last heartbeat, by its name."""


class Watch:
    """Begins anew with each restart of the service."""

    def __init__(self, start: float) -> None:
        self._plays = Meter(start)
        self._tokens = Meter(start)
        self._processes: dict[str, tuple[Process, ...]] = {}

    def measure(self, request: Request, now: float) -> None:
        """A request took effect."""
        match request:
            case SubmitPlay(trajectory=Trajectory() as trajectory):
                self._plays.add(now, 1)
                self._tokens.add(now, trajectory.sampled)
            case SubmitEnvironment(trajectory=trajectory) | RejectCandidate(trajectory=trajectory):
                self._tokens.add(now, trajectory.sampled)

    def report(self, supervisor: str, processes: tuple[Process, ...]) -> None:
        """A supervisor says how its children are."""
        self._processes[supervisor] = processes

    def seen(self, run: str, now: float, hellos: Collection[Hello], gauges: Gauges, dropped: int) -> Seen:
        """All of it at `now`, with who is connected and what each said of itself."""
        here = {hello.name for hello in hellos}
        processes = [
            _as_seen(process, supervisor in here, gauges.get(process.name, {}))
            for supervisor, reported in self._processes.items()
            for process in reported
        ]
        return Seen(
            run=run,
            now=now,
            plays_per_s=self._plays.rate(now),
            sampled_tokens_per_s=self._tokens.rate(now),
            dropped=dropped,
            roles=frozenset(hello.role for hello in hellos),
            processes=tuple(processes),
        )


def _as_seen(process: Process, supervised: bool, gauges: dict[str, float]) -> Process:
    """A process whose supervisor is gone itself was last heard of alive: it is silent."""
    if supervised or process.state not in ("starting", "ready", "restarting"):
        return msgspec.structs.replace(process, gauges=gauges)
    return msgspec.structs.replace(process, state="silent", gauges=gauges)
