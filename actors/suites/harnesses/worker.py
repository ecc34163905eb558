"""A harness's process in a sandbox of Bubblewrap, and the connection to it (`drivers/pipe.py` is the other end).

The process can reach only its own loopback. It sees only its environment, Python, the drivers, the system's libraries,
the given data and a scratch folder, but no home folder. Only this module reads the output of the process.
"""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import trio

from actors.suites.harnesses import environment
from spade.decoding import UnreadableError, try_decode
from spade.disk import open_to_append
from spade.errors import ConfigError, RunError
from spade.processes.walls import list_folders_above, make_walled_prefix
from spade.text import as_line

READY_S = 600.0
"""Most seconds for loading a harness, and also for listing its items."""
PLAY_S = 3_600.0
"""Most seconds of one play."""
_LONGEST = 32 << 20  # most bytes of a line
_PART = 1 << 16
_PARTING_S = 5.0  # longest time from the end of a harness's output to the end of its process
_SHOWN = 20  # last lines of the log that are shown
_CODE = "import sys; sys.path.insert(0, {folder!r}); from drivers.{name} import main; main({data!r})"
_DRIVERS = Path(__file__).parent / "drivers"
_SURROUNDINGS = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "MPLCONFIGDIR": "/tmp",
    "PYTHONHASHSEED": "0",  # otherwise a harness could iterate a set in another order at each start
}
"""All environment variables that a harness sees."""


class ListedItem(msgspec.Struct, frozen=True):
    """A problem of a harness."""

    name: str
    """Unique in the harness."""

    category: str
    """The item's category in the summary of results."""

    digest: str
    """A digest of everything that determines the item's plays."""


class _HarnessMessage(msgspec.Struct, frozen=True):
    kind: Literal["ready", "items", "ask", "over"]
    items: list[ListedItem] = []
    model: Literal["agent", "user"] = "agent"
    body: dict[str, Any] = {}
    correct: bool = False
    score: float = 0.0
    answer: str = ""
    error: str = ""


class ItemVerdict(NamedTuple):
    """The verdict of a harness."""

    correct: bool
    """True if the harness counts the item as solved."""

    score: float
    """The harness's score."""

    answer: str
    """The judged answer, as text."""

    error: str
    """The reason why the harness failed, or ""."""


Answering = Callable[[str, Mapping[str, Any]], Awaitable[tuple[int, bytes]]]
"""Answers a request of the "agent" or the "user" with an HTTP status and a JSON body."""

_messages: msgspec.json.Decoder[_HarnessMessage] = msgspec.json.Decoder(_HarnessMessage)


class HarnessError(RunError):
    """The process of a harness ended or broke the protocol."""


class Worker:
    """A running process of a harness."""

    def __init__(self, name: str, process: trio.Process, log: Path) -> None:
        self._name = name
        self._process = process
        self._log = log
        self._rest = bytearray()

    async def items(self) -> list[ListedItem]:
        """Return all items. Raises HarnessError."""
        with self._limit_time():
            await self._send({"items": True})
            return (await self._read_message("items")).items

    async def play(self, item: str, answer: Answering) -> ItemVerdict:
        """Play an item. Raises HarnessError, or trio.TooSlowError after PLAY_S."""
        with trio.fail_after(PLAY_S):
            await self._send({"play": item})
            while (message := await self._read_message("ask", "over")).kind == "ask":
                status, body = await answer(message.model, message.body)
                await self._send({"status": status, "body": msgspec.Raw(body)})
        return ItemVerdict(message.correct, message.score, message.answer, message.error)

    async def ready(self) -> None:
        """Wait until the harness is loaded. Raises HarnessError."""
        with self._limit_time():
            await self._read_message("ready")

    @contextmanager
    def _limit_time(self) -> Iterator[None]:
        try:
            with trio.fail_after(READY_S):
                yield
        except trio.TooSlowError:
            raise HarnessError(f"harness {self._name}: does not answer within {READY_S:g} s") from None

    async def _send(self, order: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send_all(msgspec.json.encode(order) + b"\n")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise await self._make_ended_error() from None

    async def _read_message(self, *kinds: str) -> _HarnessMessage:
        try:
            message = try_decode(_messages.decode, await self._read_line())
        except UnreadableError as error:
            raise HarnessError(f"harness {self._name}: sent a message that cannot be read: {error}") from None
        if message.kind not in kinds:
            raise HarnessError(f"harness {self._name}: sent {message.kind!r} instead of {' or '.join(kinds)}")
        return message

    async def _read_line(self) -> bytes:
        assert self._process.stdout is not None
        begin = 0
        while (end := self._rest.find(b"\n", begin)) < 0:
            begin = len(self._rest)
            if begin > _LONGEST:
                raise HarnessError(f"harness {self._name}: sent a line of over {_LONGEST} bytes")
            part = await self._process.stdout.receive_some(_PART)
            if not part:
                raise await self._make_ended_error()
            self._rest += part
        found, self._rest = bytes(self._rest[:end]), self._rest[end + 1 :]
        return found

    async def _make_ended_error(self) -> HarnessError:
        """Build the error for a process that is gone, with the last lines of its log."""
        with trio.move_on_after(_PARTING_S):
            await self._process.wait()
        _kill(self._process)
        code = await self._process.wait()
        lines = [as_line(each, 200) for each in self._log.read_text(errors="replace").splitlines()[-_SHOWN:]]
        return HarnessError(f"harness {self._name}: ended with {code}: {' · '.join(lines) or 'its log is empty'}")


@asynccontextmanager
async def start_worker(name: str, log: Path, tier: str, data: Path | None = None) -> AsyncIterator[Worker]:
    """Start a harness and yield it when it is ready. Kill it at the end of the block. `tier`: see sandbox.tier.

    Raises ConfigError if its environment or Bubblewrap is missing, HarnessError if it does not start.
    """
    async with start_process(name, _make_command(name, tier, data), log) as found:
        yield found


@asynccontextmanager
async def start_process(name: str, command: Sequence[str], log: Path) -> AsyncIterator[Worker]:
    """Start the process of this command and yield it when it is ready. Kill it at the end of the block.

    Raises HarnessError.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with open_to_append(log) as errors:
        process = await trio.lowlevel.open_process(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=_SURROUNDINGS,
            start_new_session=True,
        )
    try:
        found = Worker(name, process, log)
        await found.ready()
        yield found
    finally:
        _kill(process)
        with trio.CancelScope(shield=True):
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                await stream.aclose()
            await process.wait()


def _kill(process: trio.Process) -> None:
    """Kill the process and its children. Killing bubblewrap alone would leave the processes inside."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _make_command(name: str, tier: str, data: Path | None) -> Sequence[str]:
    """Return the command that starts the harness. Raises ConfigError."""
    python = environment.find_python(name)
    given = "" if data is None else str(data.absolute())
    code = _CODE.format(folder=str(_DRIVERS.parent), name=name, data=given)
    own = [str(python), "-s", "-B", "-c", code]  # no -E: Python would then ignore PYTHONHASHSEED
    if tier == "none":
        return own
    shown = [environment.find_folder(name), Path(sys.base_prefix), Path(sys.base_exec_prefix), _DRIVERS]
    try:
        walls = make_walled_prefix(shown, ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"])
    except FileNotFoundError as error:
        raise ConfigError(
            f"suite {name}: its harness needs bubblewrap: {error}; --set sandbox.tier=none runs it without a sandbox"
        ) from None
    files = [*list_folders_above(Path(given)), "--ro-bind", given, given] if given else []
    # Do not use --die-with-parent: the process would end with the thread that started it. Without this option, it ends
    # when its input closes, or when its process group is killed.
    return [*walls, "--cap-drop", "ALL", *files, *own]
