"""Locks of files that say who holds them, also to other hosts that see the same folder.

A lock is the system's (flock), and its file names the holder: its pid, and the host that the pid is of. A pid means
something to processes of the same host and process namespace alone: for these the kernel says whether that process has
the lock. On the same kernel (another container, or the same host since it was started again) the lock itself says
whether somebody has it. Whether locks reach another host depends on the file system, so a file that names one counts
as held until its holder lets go, which empties it, or a person deletes it.
"""

import fcntl
import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from spade.decoding import UnreadableError, decoded
from spade.disk import read
from spade.errors import RunError
from spade.text import line

_BYTES = 1_024  # of a whole file; a host's name has at most 64 bytes
_TRIES = 100  # a reader of another namespace may have the lock for an instant, too
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_PIDS = Path("/proc/self/ns/pid")


class Holder(msgspec.Struct, frozen=True):
    """The holder of a lock. `boot` is the id of its kernel's start, `pids` the number of its process namespace."""

    pid: int
    host: str
    boot: str
    pids: int

    @property
    def near(self) -> bool:
        """True if its pid means that process here."""
        ours = here()
        return (self.boot, self.pids) == (ours.boot, ours.pids)

    @property
    def far(self) -> bool:
        """True if it is of another host, to which our locks may not reach."""
        ours = here()
        return self.boot != ours.boot and self.host != ours.host

    def __str__(self) -> str:
        return f"pid {self.pid}" if self.near else f"pid {self.pid} of {line(self.host)}"


_holders: msgspec.json.Decoder[Holder] = msgspec.json.Decoder(Holder)


def here() -> Holder:
    """This process, as the holder of its locks."""
    host = socket.gethostname()
    try:
        boot, pids = _BOOT.read_text(encoding="ascii").strip(), _PIDS.stat().st_ino
    except OSError:  # a system without either: its name has to do
        boot, pids = host, 0
    return Holder(os.getpid(), host, boot, pids)


@contextmanager
def locked(file: Path, told: Callable[[Holder], str]) -> Iterator[None]:
    """Hold the lock of `file`, which names this process meanwhile.

    Raises RunError with what `told` says of the holder if there is another; if `file` is no regular one, or locked by
    a process that it does not name; or if its file system has no locks.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise RunError(f"{file}: is not a regular file; remove it")
        if (other := _take(descriptor, file)) is not None:
            raise RunError(told(other))
        # In one write of one length, so that a reader sees the old holder or the new one, never a part.
        os.pwrite(descriptor, msgspec.json.encode(here()).ljust(_BYTES), 0)
        os.ftruncate(descriptor, _BYTES)
        try:
            yield
        finally:
            os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def holder(file: Path) -> Holder | None:
    """The process that has locked `file`, or is of another host and may have; None where nobody is known to."""
    stated = _stated(file)
    if stated is None or stated.far:
        return stated
    held = _has(stated.pid, file) if stated.near else _is_locked(file)
    return stated if held else None


def _take(descriptor: int, file: Path) -> Holder | None:
    """Lock a file, unless it has a holder, which is returned."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if (found := holder(file)) is not None:
                return found
        except OSError as error:
            raise RunError(f"{file}: cannot be locked ({error.strerror}); choose a directory elsewhere") from None
        else:
            left = _stated(file)
            return left if left is not None and left.far else None
    raise RunError(f"{file}: is locked by a process outside this run; end it")


def _stated(file: Path) -> Holder | None:
    """The holder that the file names; None if it names none, is damaged or cannot be read."""
    try:
        return decoded(_holders.decode, read(file, _BYTES))
    except (OSError, UnreadableError, RunError):
        return None


def _has(pid: int, file: Path) -> bool:
    """True if that process of ours has locked the file; False also for one that we may not inspect."""
    try:
        ours = file.stat()
        return any(_is_lock(pid, name, ours) for name in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def _is_lock(pid: int, name: str, file: os.stat_result) -> bool:
    """True if a descriptor of a process is `file` and holds a lock on it."""
    try:
        if not os.path.samestat(os.stat(f"/proc/{pid}/fd/{name}"), file):
            return False
        return "FLOCK" in Path(f"/proc/{pid}/fdinfo/{name}").read_text(encoding="ascii")
    except OSError:  # it was closed meanwhile
        return False


def _is_locked(file: Path) -> bool:
    """True if any process of this kernel has locked the file."""
    try:
        with file.open("rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
