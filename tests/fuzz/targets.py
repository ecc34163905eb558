"""Targets of the fuzzer: a real replay service over a store with work in every state, and a real env-runner."""

import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import get_args

import msgspec

from replay.ledger.records import RunCounters, Table
from replay.store import open_reader
from spade.config import Config
from spade.processes.supervise import Supervisor
from tests.peers import supervised
from tests.replay import feeding
from tests.replay.everyone import Everyone, everyone
from tests.replay.replay_world import config

_FOREVER = "1000000"
SETTINGS = config(
    "design.active_environments=3", "design.round_jobs=3", "design.active_skills=1", "play.window_chunks=1",
    "play.group_size=2", "learner.batch_sequences=2", "bus.max_message_bytes=262144",
    "sandbox.episodes=8", "sandbox.load_s=2", "sandbox.step_s=1", "run.seed=1",
    *(f"{name}={_FOREVER}" for name in (
        "design.lease_s", "design.round_deadline_s", "play.lease_s", "play.window_deadline_s",
        "learner.group_deadline_s",
    )),
)  # fmt: skip


class Target:
    """A service under fire."""

    def __init__(self, name: str, path: Path, supervisor: Supervisor) -> None:
        self.name = name
        self.path = path
        self._supervisor = supervisor

    @property
    def address(self) -> str:
        return f"ipc://{self.path}"

    @property
    def restarts(self) -> int:
        return self._process().restarts

    def resident_bytes(self) -> int:
        """Memory of the process itself."""
        return int(Path(f"/proc/{self._process().pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def descriptors(self) -> int:
        """Open files and sockets."""
        return len(os.listdir(f"/proc/{self._process().pid}/fd"))

    def _process(self):
        return next(process for process in self._supervisor.processes() if process.name == self.name)


class Ground:
    """Both services, and the client that keeps the run's work in hand."""

    def __init__(self, run: Path, targets: list[Target], replay: Everyone) -> None:
        self.run = run
        self.targets = targets
        self.replay = replay

    def store_digest(self) -> str:
        """Of all that the store holds but the clock and the count of late plays (a play that nobody had is late)."""
        total = hashlib.blake2b()
        with open_reader(self.run / "store") as store:
            for table in get_args(Table):
                if table != "meta":
                    for record in store.scan(table, msgspec.Raw):
                        total.update(bytes(record))
            for key in ("run", "statistics", "history"):
                total.update(bytes(store.get("meta", key, msgspec.Raw) or b""))
            counters = store.get("meta", "counters", RunCounters)
            counters.late_plays = 0
            total.update(msgspec.msgpack.encode(counters))
        return total.hexdigest()[:16]


@asynccontextmanager
async def ground(run: Path, settings: Config = SETTINGS) -> AsyncIterator[Ground]:
    """Both services up, the store filled, nothing left to lease."""
    async with (
        supervised(run, settings, "replay", "env-runner") as supervisor,
        everyone(f"ipc://{run}/replay", settings, "engine", "supervisor", "env-runner") as replay,
    ):
        await _fill(replay)
        yield Ground(run, [Target(name, run / name, supervisor) for name in ("replay", "env-runner")], replay)


async def _fill(replay: Everyone) -> None:
    """An environment designed, played and trained on; then every job that is to be had in the hands of this client."""
    await feeding.publish(replay)
    await feeding.train(replay, 1, plays=4)
    await replay.checkpointed(1)
    while await replay.lease_designs(3, 1.0):
        pass
    assert not await replay.lease_plays(1, 0.0)
