"""The entry of every role process. The process gets orders and a pipe to its supervisor, and never outlives it.

`python -m spade.processes MODULE LAUNCH_JSON PIPE`: PIPE is the number of an inherited socket. The supervisor never
writes to it, so it becomes readable only when the supervisor is gone, however it died. The process writes one line to
it when it is ready. If it fails, it writes the reason in one more line, so that a person need not search a log.
"""

import errno
import gc
import logging
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import NoReturn

import msgspec
import trio

from spade import config
from spade.config import Limits
from spade.errors import ConfigError, RefusedError, RunError, SpadeError
from spade.processes import logs
from spade.protocol import PROTOCOL_VERSION, Hello, LifeNumber, Role
from spade.transport import Client, Server, serve
from spade.transport.pump import run_in_background

READY = b"ready\n"
RETIRE = signal.SIGUSR1  # tells a ready process of a role in `supervise.RETIRING` to finish its present work and leave
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FINAL = 78  # exit code of failures that a restart cannot repair (EX_CONFIG of sysexits.h)

_supervisors: list[socket.socket] = []  # this process's end of the pipe to its supervisor, if it has one

log = logging.getLogger(__name__)


class Launch(msgspec.Struct, frozen=True):
    """Orders of one process. Paths are absolute or relative to the supervisor's working directory."""

    name: str
    """Name of the process."""

    role: Role
    """Role of the process."""

    config: str
    """Path of the run's resolved config.toml."""

    run: str
    """The run directory."""

    replay: str
    """Address of the replay service."""

    bind: str | None = None
    """Address to serve on, for servers."""

    index: int = 0
    """Position among the processes of its role, from 0."""

    gpus: tuple[int, ...] | None = None
    """GPUs that the process may see (`spade.processes.gpus`). None means all GPUs that its supervisor sees."""

    corpus: str = ""
    """Digest of the run's documents, for the replay service, or "" if unknown."""

    life: LifeNumber = LifeNumber()
    """Number of this start among all starts of its name (`spade.processes.supervise`)."""

    limits: Limits = Limits()
    """Limits of the command that starts the run, in addition to the config's limits. For the replay service."""

    command: str = ""
    """Random name of the command that starts the run, the same for all lives of the process."""


Body = Callable[[Launch, config.Config, Callable[[], None]], Awaitable[None]]


def main(body: Body) -> NoReturn:
    """Run `body(launch, config, ready)` as a supervised process.

    `ready()` tells the supervisor that the process serves. SIGTERM, SIGINT or the supervisor's death cancel the body,
    which has supervise.drain_s to clean up. Exit codes: 0 after an orderly end, FINAL for a ConfigError, a RunError or
    a full disk (a restart does not help), 1 for any other error.
    """
    launch = msgspec.json.decode(sys.argv[1], type=Launch)
    pipe = socket.socket(fileno=int(sys.argv[2]))
    pipe.set_inheritable(False)  # our own children must not keep it open
    _supervisors.append(pipe)
    logs.begin(launch.name)
    gc.freeze()  # do not search imported objects for garbage: they stay, and a search among torch's takes 0.2 s
    gc.enable()
    try:
        trio.run(_live, body, launch, config.load(launch.config), pipe)
    except Exception as error:
        code, line, bug = _find_verdict(error)
        log.critical("%s", line, exc_info=bug)
        _say(pipe, f"{line}\n".encode(errors="backslashreplace"))
        logs.forget_unwritten()  # otherwise a failed flush at exit, on a full disk, would change the exit code
        sys.exit(code)
    log.info("left in order")
    sys.exit(0)


@asynccontextmanager
async def open_service(launch: Launch, settings: config.Config) -> AsyncIterator[tuple[Server, Client]]:
    """Serve at `launch.bind`, and connect to the replay service, which tells others the address.

    Raises the errors of `serve` and `connect_to_replay`.
    """
    assert launch.bind is not None, f"{launch.name} needs an address to serve on"
    async with (
        serve(launch.bind, digest=config.compute_digest(settings), bus=settings.bus) as server,
        connect_to_replay(launch, settings, server.address) as replay,
    ):
        yield server, replay


@asynccontextmanager
async def connect_to_replay(
    launch: Launch, settings: config.Config, address: str | None = None, corpus: str = ""
) -> AsyncIterator[Client]:
    """Connect to the replay service as this life of the process. `address` and `corpus` go into the Hello.

    Raises RunError as soon as the service refuses us for good, for example because a newer life of our name has
    connected. A restart would not help. Raises BusError and ConfigError as `spade.transport.connect` does.
    """
    hello = Hello(
        PROTOCOL_VERSION,
        config.compute_digest(settings),
        launch.role,
        launch.name,
        os.getpid(),
        address,
        corpus,
        launch.life,
    )
    client = Client(launch.replay, hello, bus=settings.bus)
    try:
        async with client.session(), run_in_background(partial(_wait_until_refused, client)):
            yield client
    except* RefusedError:
        if client.refusal:  # every later call fails with the same error
            raise RunError(client.refusal) from None
        raise


async def _wait_until_refused(client: Client) -> None:
    """Wait until a service that accepted us before refuses us, then raise its refusal."""
    while True:
        await client.wait_pulse()


async def _live(body: Body, launch: Launch, settings: config.Config, pipe: socket.socket) -> None:
    """Run the body, and meanwhile watch for signals and for the supervisor's death."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            leave = partial(
                _leave, nursery.cancel_scope, trio.lowlevel.current_trio_token(), settings.supervise.drain_s
            )
            # In a thread, because a body may block trio, and must end with the supervisor even then.
            threading.Thread(target=_watch_supervisor, args=(pipe, leave), daemon=True).start()
            nursery.start_soon(_watch_signals, signals, leave)
            await body(launch, settings, partial(_say, pipe, READY))
            nursery.cancel_scope.cancel()


async def _watch_signals(signals: AsyncIterator[int], leave: Callable[[str], None]) -> None:
    async for number in signals:
        leave(signal.Signals(number).name)


def _say(pipe: socket.socket, line: bytes) -> None:
    with suppress(OSError):  # the supervisor is gone: `_watch_supervisor` notices it
        pipe.sendall(line)


def end_within(seconds: float, line: str) -> None:
    """End this process after `seconds`, with `line` as the reason, if it still runs.

    A process may go on because one of its threads cannot be stopped.
    """

    def end() -> None:
        log.critical("%s", line)
        for pipe in _supervisors:
            _say(pipe, f"{line}\n".encode(errors="backslashreplace"))
        os._exit(1)

    last = threading.Timer(seconds, end)
    last.daemon = True
    last.start()
    signal.alarm(math.ceil(2 * seconds))  # kills the process if the exiting interpreter waits for such a thread


def _watch_supervisor(pipe: socket.socket, leave: Callable[[str], None]) -> None:
    with suppress(OSError):
        pipe.recv(1)
    leave("the supervisor is gone")


def _leave(scope: trio.CancelScope, token: trio.lowlevel.TrioToken, drain_s: float, why: str) -> None:
    """Cancel the body. Kill the process if it still runs after `drain_s`."""
    log.info("leaving: %s", why)
    last = threading.Timer(drain_s, os._exit, (1,))
    last.daemon = True
    last.start()
    with suppress(trio.RunFinishedError):
        token.run_sync_soon(scope.cancel)


def _find_verdict(error: Exception) -> tuple[int, str, BaseException | None]:
    """Return exit code, line and error for a failed body.

    The log shows the traceback of the error. For a foreseen failure the error is None, so that no traceback is shown.
    """
    leaves = _collect_leaves(error)
    if full := [leaf for leaf in leaves if _is_disk_full(leaf)]:
        return FINAL, f"{full[0]}; free some space, then the same command continues from here", None
    bugs = [leaf for leaf in leaves if not isinstance(leaf, SpadeError)]
    if bugs:
        line = " ".join(f"{type(bugs[0]).__name__}: {bugs[0]}".split())
        return 1, line, bugs[0] if len(leaves) == 1 else error
    final = any(isinstance(leaf, ConfigError | RunError) for leaf in leaves)
    return (FINAL if final else 1), " ".join("; ".join(dict.fromkeys(map(str, leaves))).split()), None


def _is_disk_full(error: BaseException) -> bool:
    """Return True if a write failed on a full disk. safetensors reports this only in its message."""
    return getattr(error, "errno", None) in _NO_SPACE or any(os.strerror(one) in str(error) for one in _NO_SPACE)


def _collect_leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in _collect_leaves(part)]
    return [error]
