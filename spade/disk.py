"""Files and folders that other processes rely on: durable writes, deletion as a whole."""

import errno
import fcntl
import logging
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import copyfile, copytree, rmtree
from typing import BinaryIO

from spade.errors import RunError, reason

DRAFT = ".draft-"
"""Prefix of a folder that is being written, is being deleted, or was left by a crash in either."""
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

log = logging.getLogger(__name__)


def out_of_descriptors(error: OSError) -> bool:
    """True if the process has no descriptors left; connections of its peers may use them up."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def discard(folder: Path) -> None:
    """Delete a folder that others may read. It is renamed first, so that a reader finds it whole or not at all.

    Raises OSError.
    """
    gone = Path(tempfile.mkdtemp(prefix=DRAFT, dir=folder.parent))
    os.replace(folder, gone)
    rmtree(gone)


def hold(file: Path) -> BinaryIO:
    """Keep the folder of `file` from `discard_unless_held` until the result is closed or its process ends.

    This is for processes of one machine: a file system that machines share need not bring locks from one to another.
    Raises OSError; FileNotFoundError if it is gone.
    """
    opened = file.open("rb")
    _lock(opened, fcntl.LOCK_SH)
    if not file.exists():  # it was discarded meanwhile
        opened.close()
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file))
    return opened


def discard_unless_held(folder: Path, name: str) -> None:
    """Delete a folder, unless a process holds its file `name` (`hold`). Raises OSError."""
    try:
        file = (folder / name).open("r+b")
    except FileNotFoundError:
        discard(folder)
        return
    with file:
        try:
            _lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        discard(folder)


def _lock(file: BinaryIO, kind: int) -> None:
    """Lock a file, unless its file system has no locks. Raises OSError."""
    try:
        fcntl.flock(file, kind)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


def link_folder(folder: Path, copy: Path) -> None:
    """Make `copy` of a folder by hard links if possible, which outlive it and take no space. Raises OSError."""
    copytree(folder, copy, copy_function=_link_or_copy)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(os.path.realpath(source), target)  # a hub's cache has links, which would point elsewhere from here
    except OSError:  # another file system, or one without links
        copyfile(source, target)


@contextmanager
def draft(parent: Path) -> Iterator[Path]:
    """A new folder in `parent` to fill and then to rename; where it was not renamed it is deleted. Raises OSError."""
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=DRAFT, dir=parent))
    try:
        folder.chmod(0o755)  # mkdtemp's folders are private
        yield folder
    finally:
        rmtree(folder, ignore_errors=True)  # half a folder must not fill the disk


@contextmanager
def whole(folder: Path) -> Iterator[Path]:
    """A draft to fill in the block: at its end it is renamed to `folder`; if the block fails it is deleted.

    Raises RunError if the folder exists, or cannot be made: on a full disk, for example.
    """
    if os.path.lexists(folder):
        raise RunError(f"{folder}: exists already; give a new directory")
    try:
        with draft(folder.parent) as beside:
            yield beside / folder.name
            os.replace(beside / folder.name, folder)
    except OSError as error:
        raise RunError(f"{folder}: was not made ({reason(error)}); nothing of it is left") from None


def replace(file: Path, data: bytes) -> None:
    """Write a file whole or not at all. Raises OSError, which names the file.

    A device, a FIFO or a socket is refused: its name would be taken from it, /dev/null for all of a machine.
    """
    if file.is_dir():  # ".", "/" and ".." have no name to write beside
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    if file.exists() and not file.is_file():
        raise FileExistsError(errno.EEXIST, "is not a regular file", str(file))
    part = file.with_name(f".{secrets.token_hex(8)}.part")  # another process may write the same file
    try:
        with part.open("xb") as opened:
            opened.write(data)
        os.replace(part, file)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        error.filename = str(file)  # a full disk names none
        raise


@contextmanager
def regular(file: Path) -> Iterator[BinaryIO]:
    """Open a file that a person or another program named, for reading.

    Raises RunError if it is not a regular file: a FIFO may have no writer, a device no end. Raises OSError if it cannot
    be opened, or read in the block; it names the file.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
        if not stat.S_ISREG(mode):
            raise RunError(f"{file}: is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as opened:
            yield opened
    except OSError as error:
        error.filename = error.filename or str(file)  # a read names none
        raise
    finally:
        os.close(descriptor)


def read(file: Path, most: int = 1 << 20) -> bytes:
    """Read a file that a person or another program named, at most `most` bytes.

    Raises RunError if it is longer, or not a regular file. Raises OSError if it cannot be read.
    """
    with regular(file) as opened:
        data = opened.read(most + 1) or b""  # None if a kernel's file has no data now
    if len(data) > most:
        raise RunError(f"{file}: is over {most} bytes")
    return data


def refuse_outside(file: Path) -> None:
    """Raises RunError if a file of a folder that others wrote is a link that leaves the folder."""
    if file.is_symlink() and os.path.dirname(os.path.realpath(file)) != os.path.realpath(file.parent):
        raise RunError(f"{file}: is a link that leaves its folder; put a copy of the file in its place")


def file_system(path: Path) -> str:
    """The type of the file system that holds `path`, as the kernel names it; "" if the kernel does not tell.

    Raises OSError if there is no such path.
    """
    found = path.stat().st_dev
    device = f"{os.major(found)}:{os.minor(found)}"
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""
    kinds = [row.split(" - ", 1)[1].split()[0] for row in mounts.splitlines() if row.split()[2] == device]
    return kinds[-1] if kinds else ""


def expand_home(path: str) -> Path:
    """Return `path` with a leading `~` replaced. It stays for an unknown user, for whom Path.expanduser raises."""
    return Path(os.path.expanduser(path))


def private(folder: Path) -> None:
    """Make `folder` private to this user (mode 0700): create it, or close it to others if it exists.

    Raises RunError if it belongs to another user or cannot be closed, OSError.
    """
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid():
            raise RunError(f"{folder}: belongs to another user (uid {found.st_uid}); choose another directory")
        if not found.st_mode & _OTHERS:
            return
        os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & ~_OTHERS)
        if os.fstat(descriptor).st_mode & _OTHERS:
            raise RunError(f"{folder}: its file system keeps it open to other users; choose another directory")
        log.warning("%s: was open to other users (mode %o) and is closed now", folder, stat.S_IMODE(found.st_mode))
    finally:
        os.close(descriptor)
