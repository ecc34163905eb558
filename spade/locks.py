"""File locks that name their holder, also to other hosts that see the same folder.

A lock is taken with flock. Its file names the holder: a pid, and the host and process namespace of that pid. There are
three ways to find out whether the lock is held:

* The holder has our kernel and process namespace: the kernel says whether that process has the lock.
* The holder is in another container of this machine, or started before a reboot: trying the lock shows whether any
  process has it.
* The holder is on another host, which flock may not reach: the lock counts as held until the holder empties the file,
  or a person deletes it.
"""

import fcntl
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from spade.decoding import UnreadableError, try_decode
from spade.disk import read
from spade.errors import RunError
from spade.text import as_line

_FOLDER_S, _LOOK_S = 10.0, 0.01  # longest wait of `hold_folder`, and time between two of its tries
_BYTES = 1_024  # size of a lock file, enough for a host name, which has at most 64 bytes
_TRIES = 100  # tries to take a lock, since a reader in another namespace may hold it for an instant
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PIDS = Path("/proc/self/ns/pid")


class Holder(msgspec.Struct, frozen=True):
    """The holder of a lock."""

    pid: int
    """Process id of the holder."""

    host: str
    """Host name of the holder."""

    boot: str
    """Boot id of the holder's kernel, which changes with each reboot."""

    pids: int
    """Inode number of the holder's PID namespace."""

    @property
    def near(self) -> bool:
        """Return True if the holder's pid means the same process to us."""
        ours = describe_this_process()
        return (self.boot, self.pids) == (ours.boot, ours.pids)

    @property
    def far(self) -> bool:
        """Return True if the holder is on another host, which our locks may not reach."""
        ours = describe_this_process()
        return self.boot != ours.boot and self.host != ours.host

    def __str__(self) -> str:
        return f"pid {self.pid}" if self.near else f"pid {self.pid} of {as_line(self.host)}"


_holders: msgspec.json.Decoder[Holder] = msgspec.json.Decoder(Holder)


def describe_this_process() -> Holder:
    """Describe this process as a holder of locks."""
    host = socket.gethostname()
    try:
        boot, pids = _BOOT.read_text(encoding="ascii").strip(), _PIDS.stat().st_ino
    except OSError:  # a system without boot id or namespaces: use the host's name
        boot, pids = host, 0
    return Holder(os.getpid(), host, boot, pids)


@contextmanager
def hold_lock(file: Path, describe: Callable[[Holder], str]) -> Iterator[None]:
    """Hold the lock of `file` in the block. While this process holds it, the file's content is this process.

    Raises RunError with the text of `describe(holder)` if another process holds the lock. Also raises RunError if
    `file` is not a regular file, if it is locked but does not say by which process, or if the file system does not
    support locks.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise RunError(f"{file}: is not a regular file; remove it")
        if (other := _take(descriptor, file)) is not None:
            raise RunError(describe(other))
        try:
            # One write of fixed length: a reader sees the old holder or the new holder, never a part.
            os.pwrite(descriptor, msgspec.json.encode(describe_this_process()).ljust(_BYTES), 0)
            os.ftruncate(descriptor, _BYTES)
        except OSError as error:
            error.filename = str(file)  # on a full disk, the error does not name the file
            raise
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


@contextmanager
def hold_folder(folder: Path) -> Iterator[None]:
    """Let one process at a time run its block for a folder. The block must be short, since other processes wait.

    Runs the block without a lock if the folder is gone, if its file system cannot lock it, or if another process, such
    as a stopped one, keeps the lock for `_FOLDER_S` seconds.
    """
    with ExitStack() as opened:
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            opened.callback(os.close, descriptor)
            _wait_for_lock(descriptor)
        yield


def _wait_for_lock(descriptor: int) -> None:
    """Lock a folder. Raises BlockingIOError if others hold it for `_FOLDER_S`, and OSError if it cannot be locked."""
    until = time.monotonic() + _FOLDER_S
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(_LOOK_S)


def find_holder(file: Path) -> Holder | None:
    """Return the process that holds the lock of `file`, or None if nobody is known to hold it.

    A process of another host is returned even if it may have ended.
    """
    stated = _read_holder(file)
    if stated is None or stated.far:
        return stated
    held = _holds_lock(stated.pid, file) if stated.near else _is_locked(file)
    return stated if held else None


def _take(descriptor: int, file: Path) -> Holder | None:
    """Lock a file. If another process holds the lock, return the holder instead."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if (found := find_holder(file)) is not None:
                return found
        except OSError as error:
            raise RunError(f"{file}: cannot be locked ({error.strerror}); choose a directory elsewhere") from None
        else:
            left = _read_holder(file)
            return left if left is not None and left.far else None
    raise RunError(f"{file}: is locked by a process outside this run; end it")


def _read_holder(file: Path) -> Holder | None:
    """Return the holder that the file names, or None if it is empty, damaged or unreadable."""
    try:
        return try_decode(_holders.decode, read(file, _BYTES))
    except (OSError, UnreadableError, RunError):
        return None


def _holds_lock(pid: int, file: Path) -> bool:
    """Return True if process `pid` has locked the file. Returns False for a process that we may not inspect."""
    try:
        ours = file.stat()
        return any(_is_lock(pid, name, ours) for name in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def _is_lock(pid: int, name: str, file: os.stat_result) -> bool:
    """Return True if descriptor `name` of process `pid` is open on `file` and holds a lock on it."""
    try:
        if not os.path.samestat(os.stat(f"/proc/{pid}/fd/{name}"), file):
            return False
        return "FLOCK" in Path(f"/proc/{pid}/fdinfo/{name}").read_text(encoding="ascii")
    except OSError:  # the process closed it meanwhile
        return False


def _is_locked(file: Path) -> bool:
    """Return True if any process of this kernel has locked the file."""
    try:
        with file.open("rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
