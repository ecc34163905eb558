"""Role processes for the tests of supervision: `-m spade.processes tests.spade.roles`. `launch.bind` names the body."""

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import trio

from spade.config import Config, dump, load
from spade.errors import BusError, ConfigError
from spade.processes.entry import RETIRE, Launch, main
from spade.processes.gpus import VISIBLE
from spade.protocol import Role

COLLECTS_WHILE_IMPORTING = gc.isenabled()
SOON_S = 240.0  # a busy machine takes long to start and to leave


def orders(
    run: Path, name: str, behaviour: str = "steady", role: Role = "agent", drain_s: float = SOON_S, index: int = 0
) -> Launch:
    """The launch of one of these processes; its settings are written in the folder `run`."""
    settings = run / f"{behaviour}.toml"
    settings.write_text(dump(load("nano", (f"supervise.drain_s={drain_s}",))))
    return Launch(name, role, str(settings), str(run), "ipc:///nowhere", behaviour, index)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what other processes do. Raises TooSlowError after SOON_S."""
    with trio.fail_after(SOON_S):
        while not condition():  # noqa: ASYNC110 (what other processes do raises no event here)
            await trio.sleep(0.02)


def note(launch: Launch, line: str) -> None:
    """Append to the run's diary, in one write."""
    with Path(launch.run, "diary").open("ab", buffering=0) as diary:
        diary.write(f"{launch.name} {line}\n".encode())


async def steady(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Serve until cancelled or retired, then take a moment to clean up."""
    try:
        with trio.open_signal_receiver(RETIRE) as signals:
            ready()
            async for _ in signals:
                note(launch, "retires")
                return
    finally:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.05)
        note(launch, "left")


async def stubborn(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Never leave."""
    with trio.CancelScope(shield=True):
        ready()
        await trio.sleep_forever()


async def unwilling(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Go on when told to retire."""
    with trio.open_signal_receiver(RETIRE) as signals:
        ready()
        async for _ in signals:
            pass


async def blocked(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Never let trio run again."""
    ready()
    while True:
        time.sleep(60)  # noqa: ASYNC251


async def mute(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Never be ready."""
    await trio.sleep_forever()


async def crash(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Break an invariant as soon as ready."""
    ready()
    raise RuntimeError("the sky\nfell")


async def misled(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Find that the configuration cannot be used, in a nursery as most bodies do."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        raise ConfigError("model.path: no such folder")


async def lonely(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Reach nobody."""
    raise BusError("ipc:///nowhere: no answer")


async def brood(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Leave a grandchild in the process group that ignores SIGTERM."""
    code = f"import signal, time; signal.signal({signal.SIGTERM}, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    grandchild = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)  # noqa: ASYNC220
    grandchild.stdout.readline()
    note(launch, str(grandchild.pid))
    ready()
    await trio.sleep_forever()


async def shown(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Say which GPUs are shown to it."""
    note(launch, f"sees {os.environ.get(VISIBLE)}")
    await steady(launch, config, ready)


async def run(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Do as the launch says."""
    assert (COLLECTS_WHILE_IMPORTING, gc.isenabled()) == (False, True), "garbage is collected once the imports are done"
    note(launch, f"started {os.getpid()} as life {launch.life}")
    bodies = (steady, stubborn, unwilling, blocked, mute, crash, misled, lonely, brood, shown)
    await {body.__name__: body for body in bodies}[launch.bind or ""](launch, config, ready)


if __name__ == "__main__":
    main(run)
