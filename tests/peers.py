"""Peers of a run for tests and benches: settings that differ, greetings, connections, services as processes."""

import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio

from replay.client import ReplayClient
from spade.app.supervisor.launches import MODULES
from spade.config import Config, compute_digest, dump
from spade.processes.entry import Launch
from spade.processes.supervise import Supervisor, supervise
from spade.protocol import PROTOCOL_VERSION, Hello, Role
from spade.transport import Client, connect

FEWEST = {
    "actors.designers": 0, "actors.agents": 0, "actors.runners": 0, "actors.engines": 0,
    "evaluation.suite": "", "evaluation.diversity_programs": 0,
}  # fmt: skip
"""Settings of a run with two processes: the replay service and the learner."""
_commands = itertools.count(1)
"""Numbers of the supervisors of this process."""


def changed(settings: Config, **sections: dict[str, Any]) -> Config:
    """The settings with other fields: `changed(settings, bus={"window": 4})`."""
    new = {name: msgspec.structs.replace(getattr(settings, name), **fields) for name, fields in sections.items()}
    return msgspec.structs.replace(settings, **new)


def hello(settings: Config, role: Role, name: str = "", address: str | None = None) -> Hello:
    """The greeting of a peer of this process; `address` where it serves."""
    return Hello(PROTOCOL_VERSION, compute_digest(settings), role, name or f"{role}-0", os.getpid(), address)


@asynccontextmanager
async def connected(address: str, settings: Config, role: Role, name: str = "") -> AsyncIterator[Client]:
    """A connection to the service at `address`."""
    async with connect(address, hello(settings, role, name), bus=settings.bus) as client:
        yield client


@asynccontextmanager
async def joined(
    address: str, settings: Config, role: Role, name: str = "", serves: str | None = None
) -> AsyncIterator[ReplayClient]:
    """A client of the replay service."""
    async with connect(address, hello(settings, role, name, serves), bus=settings.bus) as client:
        yield ReplayClient(client, settings.bus.call_deadline_s)


def orders(run: Path, settings: Config, role: Role, replay: str = "", bind: str = "") -> Launch:
    """The launch of a role process in the folder `run`, in which the settings are written.

    `replay`: the replay service's address, by default `ipc://RUN/replay`. `bind`: the address that the role serves, by
    default `ipc://RUN/ROLE`.
    """
    (run / "config.toml").write_text(dump(settings))
    replay = replay or f"ipc://{run}/replay"
    own = replay if role == "replay" else f"ipc://{run}/{role}"
    return Launch(role, role, str(run / "config.toml"), str(run), replay, bind or own)


@asynccontextmanager
async def supervised(run: Path, settings: Config, *roles: Role, replay: str = "") -> AsyncIterator[Supervisor]:
    """Role processes under a supervisor, in this order; see `orders` for their addresses.

    Lives are counted as in a run, where each command has a higher number than the one before.
    """
    async with supervise(settings.supervise, run / "logs", MODULES) as supervisor:
        supervisor.number = next(_commands)
        for role in roles:
            launch = orders(run, settings, role, replay)
            ranks = range(1, settings.learner.processes if role == "learner" else 1)
            async with trio.open_nursery() as nursery:  # the ranks of a learner are ready together
                for rank in ranks:
                    named = msgspec.structs.replace(launch, name=f"{role}-{rank}", bind=None, index=rank)
                    nursery.start_soon(supervisor.add, named)
                await supervisor.add(launch)
        yield supervisor


def alone() -> None:
    """The check of a learner's life beside which there is no other."""


def pid_of(supervisor: Supervisor, name: str) -> int:
    return next(process.pid for process in supervisor.processes() if process.name == name)
