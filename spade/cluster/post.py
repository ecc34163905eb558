"""A post runs one life of a process, on another machine than the supervisor.

The post starts the process like a supervisor: with a pipe, in a process group. The process exits when its post is gone.
Between the supervisor and the post, a heartbeat replaces the pipe. If no report of the post has reached the supervisor
for bus.silence_s, the post drains its process. So a supervisor that got no answer for bus.silence_s + supervise.drain_s
knows that the process has ended, even if the connection was cut.
"""

import os
import signal
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import BinaryIO

import msgspec
import trio

from spade import __version__, config, disk
from spade.errors import ConfigError, RunError, format_reason
from spade.processes.child import End, Life
from spade.processes.entry import FINAL, Launch
from spade.protocol import PROTOCOL_VERSION

ASK_S = 1.0  # a report without news is sent after this time
OUTPUT_BYTES = 1 << 20  # bytes of the log in one report
_HOME = "spade-post-"  # prefix of a life's folder in the temporary folder. The folder is deleted when the life ends
_LOG = "log"
_YOUNG_S = 60.0  # `_sweep` does not delete a younger folder, because its log may not exist yet
RECORD = "run.json"
_NEVER = "left before it was started"


class PostSetup(msgspec.Struct, frozen=True):
    """Everything that a post needs, because its machine may not see the supervisor's files."""

    module: str
    """Module of the process."""

    launch: Launch
    """Orders of the process. The post replaces the paths and the address in them by those of its machine."""

    config: str
    """The run's resolved config, as TOML."""

    keys: Mapping[str, bytes]
    """Files of the run's key folder by relative path. Empty if the bus does not use keys."""

    record: bytes
    """Content of the run's run.json. A machine that has the same file at the same path sees the run directory."""

    folder: str
    """Working directory of the supervisor, to which relative paths of the config refer."""


class _Packed(msgspec.Struct, frozen=True):
    """A packed `PostSetup`. Its layout may differ between releases, so the release is read first."""

    spade: str
    """Release of the sender."""

    protocol: int
    """PROTOCOL_VERSION of the sender."""

    setup: msgspec.Raw = msgspec.field(name="parcel")
    """The `PostSetup` as msgpack. Earlier releases call it "parcel", and must be able to read this struct."""


class PostReport(msgspec.Struct, frozen=True):
    """A post's report."""

    now: float
    """The post's own clock, in seconds."""

    pid: int
    """Process id, or 0 before the start."""

    ready: bool
    """True if the process is ready."""

    output: bytes
    """Part of the log, from the requested offset."""

    end: End | None
    """End of the life, once the whole log is sent."""

    left: str
    """Describes how the process ended, if it was stopped."""


class Post:
    """One life on this machine. The supervisor calls the methods remotely, each in its own thread."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._asked = 0  # calls of `report` so far
        self._reported: tuple[int, bool] = (0, False)
        self._pid = 0
        self._ready = False
        self._end: End | None = None
        self._left = ""
        self._heard = time.monotonic()
        self._log: BinaryIO | None = None
        self._life: Life | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self._begun = self._stopped = self._alone = False

    def begin(self, setup: bytes, host: str, heard: float) -> None:
        """Start the life on this machine, whose address is `host`, unless it was stopped before.

        `heard` is the time, on the post's clock, of its last answer that reached the supervisor.
        """
        with self._news:
            self._heard = heard
            if self._stopped or self._begun:  # begun already: the supervisor calls again if the answer was lost
                return
            self._begun = True
        threading.Thread(target=self._live, args=(setup, host), daemon=True).start()

    def report(self, heard: float, offset: int) -> PostReport:
        """Report the life as soon as there is news.

        `heard` is the `now` of the last answer that reached the supervisor. A new call ends an earlier call that still
        waits, because the supervisor no longer waits for the earlier call.
        """
        with self._news:
            self._heard = max(self._heard, heard)
            self._asked = asked = self._asked + 1
            self._news.notify_all()
            self._news.wait_for(lambda: self._asked != asked or self._has_news(), ASK_S)
            if self._asked != asked:  # a newer report gets the log and the news
                return PostReport(time.monotonic(), self._pid, self._ready, b"", None, self._left)
            self._reported = (self._pid, self._ready)
            output = b"" if self._log is None else os.pread(self._log.fileno(), OUTPUT_BYTES, offset)
            end = None if len(output) == OUTPUT_BYTES else self._end
            if end is not None:
                self._forget_log()
            return PostReport(time.monotonic(), self._pid, self._ready, output, end, self._left)

    def stop(self) -> None:
        """Drain the process."""
        with self._news:
            self._stopped = True
            if not self._begun:
                self._end, self._left = End(0, _NEVER, ""), _NEVER
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(self._scope.cancel)

    def retire(self) -> None:
        """Tell the process to finish its present work and leave."""
        if self._life is not None:
            self._life.retire()

    def on_start(self, pid: int, host: str) -> None:
        """See `LifeWatcher`."""
        with self._news:
            self._pid = pid
            self._news.notify_all()

    def on_ready(self) -> None:
        """See `LifeWatcher`."""
        with self._news:
            self._ready = True
            self._news.notify_all()

    def on_wait(self, what: str) -> None:
        """See `LifeWatcher`. A process on the post's own machine never waits."""

    def _live(self, setup: bytes, host: str) -> None:
        """Run the whole life, in a thread of its own."""
        end, left = End(FINAL, "its post met an unforeseen error; see the cluster's own logs", ""), _NEVER
        try:
            _sweep()
            home = Path(tempfile.mkdtemp(prefix=_HOME))
            try:
                (home / _LOG).touch()
                self._log = disk.hold(home / _LOG)
                given = _unpack(setup, host)
                launch, settings = _settle(given, host, home)
                self._life = life = Life(given.module, launch, home / _LOG, settings.supervise)
                end = trio.run(self._run, life, settings.bus.silence_s)
                left = life.left
            finally:
                rmtree(home, ignore_errors=True)  # deletes the keys, too; a later `_sweep` deletes the rest
                if self._alone:
                    self._forget_log()
        except (ConfigError, RunError, OSError) as error:
            end = End(FINAL, format_reason(error), "")
        finally:
            with self._news:
                self._end, self._left = end, left
                self._news.notify_all()

    async def _run(self, life: Life, silence_s: float) -> End:
        self._token = trio.lowlevel.current_trio_token()
        end = None
        with self._scope:
            if self._stopped:
                self._scope.cancel()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch, silence_s)
                end = await life.run(self)
                nursery.cancel_scope.cancel()
        if self._alone:
            return End(-signal.SIGTERM, f"its post heard nothing from the supervisor for {silence_s:g} s", "")
        return end or End(0, life.left, "")

    async def _watch(self, silence_s: float) -> None:
        """Drain the process when the post is cut off from its supervisor."""
        while (rest := self._heard + silence_s - time.monotonic()) > 0:  # noqa: ASYNC110 (a deadline that moves)
            await trio.sleep(rest)
        self._alone = True
        self._scope.cancel()

    def _has_news(self) -> bool:
        return self._end is not None or (self._pid, self._ready) != self._reported

    def _forget_log(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None


def pack(setup: PostSetup) -> bytes:
    """Pack a setup for its post."""
    return msgspec.msgpack.encode(_Packed(__version__, PROTOCOL_VERSION, msgspec.Raw(msgspec.msgpack.encode(setup))))


def _unpack(data: bytes, host: str) -> PostSetup:
    """Unpack a setup. Raises RunError if its sender has another release than this machine."""
    packed = msgspec.msgpack.decode(data, type=_Packed)
    if (packed.spade, packed.protocol) != (__version__, PROTOCOL_VERSION):
        raise RunError(
            f"{host} has spade {__version__} with protocol {PROTOCOL_VERSION}, the supervisor {packed.spade} with "
            f"{packed.protocol}; install the same release on all machines"
        )
    return msgspec.msgpack.decode(packed.setup, type=PostSetup)


def _settle(setup: PostSetup, host: str, home: Path) -> tuple[Launch, config.Config]:
    """Unpack the files of a setup, and return orders and config for this machine.

    Raises ConfigError or RunError.
    """
    launch, keys = setup.launch, home / "keys"
    for name, data in setup.keys.items():
        file = keys / name
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600)
        file.write_bytes(data)
    if Path(setup.folder).is_dir():
        os.chdir(setup.folder)
    settings = home / "config.toml"
    settings.write_text(setup.config, encoding="utf-8")
    here = config.load(str(settings), (f"bus.keys={keys}",) if setup.keys else ())
    settings.write_text(config.dump(here), encoding="utf-8")
    run = Path(launch.run)
    if not has_run(run, setup.record):
        if launch.role == "learner":
            raise RunError(
                f"{run}: {host} does not see this run directory, and a learner needs it; put it on a file system that "
                "the machines share"
            )
        run = home / "run"
        run.mkdir(mode=0o700)
    elif launch.role == "learner" and not os.access(run, os.W_OK):
        raise RunError(f"{run}: {host} may only read this run directory, and a learner writes there; mount it writable")
    return (
        msgspec.structs.replace(
            launch, config=str(settings), run=str(run), bind=None if launch.bind is None else f"tcp://{host}:*"
        ),
        here,
    )


def has_run(run: Path, record: bytes) -> bool:
    """Return True if this machine has this run directory, and not another one at the same path."""
    try:
        return disk.read(run / RECORD) == record
    except (OSError, RunError):
        return False


def _sweep() -> None:
    """Delete the folders of posts that were killed, with their logs and keys."""
    for home in Path(tempfile.gettempdir()).glob(f"{_HOME}*"):
        with suppress(OSError):  # the folder is another user's, or another process deletes it
            if home.stat().st_uid == os.geteuid() and time.time() - home.stat().st_mtime > _YOUNG_S:
                disk.discard_unless_held(home, _LOG)
