"""A role process that notes in a diary what its post gave it; `launch.replay` is the diary's path."""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import trio

from spade.config import Config
from spade.processes.entry import RETIRE, Launch, main
from spade.processes.gpus import VISIBLE


class Entry(msgspec.Struct):
    """The beginning of a life as its process sees it; `modes` are those of the files of its key folder."""

    name: str
    pid: int
    life: int
    bind: str | None
    run: str
    gpus: str | None
    modes: dict[str, int]


def note(launch: Launch, config: Config) -> None:
    """Append this life to the diary, in one write."""
    keys = Path(config.bus.keys)
    files = [file for file in keys.rglob("*") if file.is_file()] if config.bus.keys else []
    modes = {str(file.relative_to(keys)): file.stat().st_mode & 0o777 for file in files}
    entry = Entry(launch.name, os.getpid(), launch.life.start, launch.bind, launch.run, os.environ.get(VISIBLE), modes)
    with Path(launch.replay).open("ab", buffering=0) as diary:
        diary.write(msgspec.json.encode(entry) + b"\n")


async def body(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Serve until cancelled or retired."""
    note(launch, config)
    with trio.open_signal_receiver(RETIRE) as signals:
        ready()
        async for _ in signals:
            return


if __name__ == "__main__":
    main(body)
