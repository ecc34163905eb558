"""Read, write, move and delete files and folders that other processes may also read or write.

Some functions write durably (`sync`). Others write a file or folder as a whole, so that no reader sees half of it.
"""

import errno
import fcntl
import filecmp
import glob
import logging
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from shutil import copyfile, copytree, rmtree
from typing import BinaryIO

from spade.errors import RunError, format_reason

DRAFT = ".draft-"
"""Prefix of a folder that is being written or deleted, or that a crash left in either state."""
_DRAFT_NAME = 50  # most characters of a folder's name in the name of its draft
_RANDOM = 8  # characters that mkdtemp adds to a name
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO

log = logging.getLogger(__name__)


def is_out_of_descriptors(error: OSError) -> bool:
    """Return True if the process has no free descriptor, for example because peers hold many connections open."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def discard(folder: Path) -> None:
    """Delete a folder that others may read. Does nothing if another process has deleted it. Raises OSError.

    The folder is renamed first, so that a reader finds the whole folder or no folder.
    """
    with suppress(FileNotFoundError):
        gone = Path(tempfile.mkdtemp(prefix=DRAFT, dir=folder.parent))
        try:
            os.replace(folder, gone)
        except OSError:
            gone.rmdir()
            raise
        rmtree(gone)


def hold(file: Path) -> BinaryIO:
    """Protect the folder of `file` from `discard_unless_held` until the result is closed or its process ends.

    This works between processes of one machine. A shared file system may not carry locks to another machine.
    Raises OSError, or FileNotFoundError if the file is gone.
    """
    opened = open_regular(file)
    _lock(opened, fcntl.LOCK_SH)
    if not file.exists():  # another process discarded it meanwhile
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
    """Lock a file. Does nothing on a file system without locks. Raises OSError."""
    try:
        fcntl.flock(file, kind)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise


def link_folder(folder: Path, copy: Path) -> None:
    """Copy a folder to `copy`, by hard links if possible. Raises OSError.

    Hard links take no space, and outlive the original folder.
    """
    copytree(folder, copy, copy_function=_link_or_copy)


def is_copy(folder: Path, original: Path) -> bool:
    """Return True if `folder` has every file of `original`, byte for byte. Raises OSError."""
    pairs = [(folder / name, original / name) for name in os.listdir(original)]
    return all(
        one.is_file() and (one.samefile(other) or filecmp.cmp(one, other, shallow=False)) for one, other in pairs
    )


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(os.path.realpath(source), target)  # a hub's cache has relative links, which would point elsewhere
    except OSError:  # the target is on another file system, or links are not supported
        copyfile(source, target)


@contextmanager
def add_filename(path: Path) -> Iterator[None]:
    """Add `path` to an OSError of the block that names no file, such as the error of a failed read or write."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:  # a filename would hide the text of an error without a number
            error.filename = error.filename or str(path)
        raise


@contextmanager
def open_draft(parent: Path, prefix: str = DRAFT) -> Iterator[Path]:
    """Yield a new folder in `parent`. It is deleted after the block, unless the block renames it. Raises OSError."""
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        with add_filename(parent):
            folder.chmod(0o755)  # mkdtemp's folders are private
            yield folder
    finally:
        rmtree(folder, ignore_errors=True)  # delete a half-written folder, so that it does not fill the disk


def move_from_draft(part: Path, folder: Path) -> None:
    """Rename `part` of a draft to `folder`, durably. Raises OSError.

    An older `folder` is first moved into the draft. If somebody has deleted the draft, this fails and `folder` stays.
    A crash between the two renames leaves no `folder`, so the caller must be able to make it again.
    """
    if folder.exists():
        os.replace(folder, part.with_name("replaced"))
    os.replace(part, folder)
    sync(folder.parent)


@contextmanager
def write_whole(folder: Path) -> Iterator[Path]:
    """Yield a path where the block makes a folder. It is renamed to `folder`, or deleted if the block fails.

    Also deletes drafts of `folder` that killed processes left.
    Raises RunError if `folder` exists or cannot be made, for example on a full disk.
    """
    if os.path.lexists(folder) or folder.name == "..":
        raise RunError(f"{folder}: exists already; give a new directory")
    prefix = f"{DRAFT}{folder.name[:_DRAFT_NAME]}-"
    try:
        with open_only_draft(folder.parent, prefix) as beside:
            yield beside / folder.name
            os.replace(beside / folder.name, folder)
    except OSError as error:
        raise RunError(f"{folder}: was not made ({format_reason(error)}); no part of it remains") from None


@contextmanager
def open_only_draft(parent: Path, prefix: str = DRAFT) -> Iterator[Path]:
    """Like `open_draft`. Also deletes the drafts with this prefix that killed processes left in `parent`."""
    _discard_left(parent, prefix)
    with open_draft(parent, prefix) as draft, _hold_draft(draft):
        yield draft


@contextmanager
def _hold_draft(draft: Path) -> Iterator[None]:
    """Protect a draft from `_discard_left` during the block, if its file system has locks."""
    descriptor = os.open(draft, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # on a file system without locks, `_discard_left` deletes nothing
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _discard_left(parent: Path, prefix: str) -> None:
    """Delete the drafts with this prefix that no process holds. On a file system without locks, keep all drafts."""
    for draft in parent.glob(f"{glob.escape(prefix)}{'?' * _RANDOM}"):
        with suppress(OSError):
            descriptor = os.open(draft, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                rmtree(draft)
            finally:
                os.close(descriptor)


def replace(file: Path, data: bytes | Iterable[bytes], *, durable: bool = False) -> None:
    """Write a file whole or not at all, from its bytes or from pieces of them. Raises OSError, which names the file.

    If the machine loses power, the file may be empty afterwards. `durable` prevents this by two flushes to the disk.

    Refuses to replace a device, a FIFO or a socket. A file in the place of /dev/null, for example, would break the
    machine.
    """
    if file.is_dir():  # also ".", "/" and "..", from which no name for `part` can be made
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    if file.exists() and not file.is_file():
        raise FileExistsError(errno.EEXIST, "is not a regular file", str(file))
    # The name is random, because another process may write the same file.
    part = file.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as opened:
            opened.writelines((data,) if isinstance(data, bytes) else data)
        if durable:
            sync(part)
        os.replace(part, file)
        if durable:
            sync(file.parent)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        error.filename = str(file)  # on a full disk, the error does not name the file
        raise


def open_regular(file: Path) -> BufferedReader:
    """Open a file for reading, if it is a regular file.

    Raises OSError, which names the file. Refuses a FIFO, which may never have a writer, and a device, whose data may
    never end.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    raise OSError(errno.EINVAL, "is not a regular file", str(file))


def open_to_append(file: Path, buffering: int = -1) -> BinaryIO:
    """Open a regular file to append to it. Makes a missing file.

    Raises OSError, which names the file. Somebody else may have written the folder, so this follows no link and does
    not wait for the reader of a FIFO.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    descriptor = -1
    try:
        descriptor = os.open(file, flags, 0o666)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):  # a link; a FIFO without a reader, or a socket
            raise
    if descriptor >= 0 and stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "ab", buffering)
    if descriptor >= 0:
        os.close(descriptor)
    raise OSError(errno.EINVAL, "is not a regular file", str(file))


@contextmanager
def open_for_reading(file: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading. Raises an OSError that names the file, also if a read in the block fails."""
    with add_filename(file), open_regular(file) as opened:
        yield opened


def read_all(file: Path) -> bytes:
    """Read a regular file of a trusted size. Raises OSError."""
    with open_for_reading(file) as opened:
        return opened.read()


def read(file: Path, most: int = 1 << 20) -> bytes:
    """Read a file that a person or another program named, at most `most` bytes.

    Raises RunError if the file is longer. Raises OSError if it cannot be read or is not a regular file.
    """
    with open_for_reading(file) as opened:
        data = opened.read(most + 1) or b""  # a file of the kernel returns None if it has no data now
    if len(data) > most:
        raise RunError(f"{file}: is over {most} bytes")
    return data


def list_folder(folder: Path) -> list[str]:
    """Return the names in a folder, sorted, or an empty list if it does not exist. Raises RunError.

    A glob pattern would silently skip a folder that we may not read.
    """
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise RunError(f"{folder}: {format_reason(error)}") from None


def refuse_outside(file: Path) -> None:
    """Raise RunError if a file in a folder that others wrote is a link to a place outside the folder."""
    if file.is_symlink() and not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(file.parent)):
        raise RunError(f"{file}: is a link that leaves its folder; put a copy of the file in its place")


def refuse_unprintable(path: Path, remedy: str) -> None:
    """Raise RunError if a path holds unprintable characters, since a run's config would refuse them."""
    if not str(path).isprintable():
        raise RunError(f"{path}: its path holds unprintable characters; {remedy}")


def refuse_irregular(file: Path) -> None:
    """Raise RunError if a file that others may have written is a link, or not a regular file. It may be missing."""
    if os.path.lexists(file) and not stat.S_ISREG(file.lstat().st_mode):
        kind = " but a link" if file.is_symlink() else ""
        raise RunError(f"{file}: is not a regular file{kind}; put a copy of the file in its place")


def refuse_links(folder: Path) -> None:
    """Raise RunError if a folder that others wrote has a link. A copy would contain the target of the link."""
    link = next((one for one in sorted(folder.rglob("*")) if one.is_symlink()), None)
    if link is not None:
        raise RunError(f"{link}: is a link; put a copy of the file in its place")


def refuse_linked_folders(root: Path, *but: Path) -> None:
    """Raise RunError if a folder below `root`, which others may have written, is a link. The paths `but` may be links.

    Files in such a folder would be written or deleted elsewhere.
    """
    for parent, names, _ in os.walk(root):
        for path in (Path(parent, name) for name in names):
            if path.is_symlink() and path not in but:
                raise RunError(
                    f"{path}: is a link, so that files elsewhere could be deleted; put a folder in its place"
                )


def find_file_system(path: Path) -> str:
    """Return the kernel's name for the type of the file system that holds `path`, or "" if unknown.

    Raises OSError if the path does not exist.
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
    """Replace a leading `~` of `path`. Unlike Path.expanduser, leave the `~` of an unknown user in place."""
    return Path(os.path.expanduser(path))


def make_private(folder: Path) -> None:
    """Make `folder` private to this user (mode 0700). Creates it, or closes it to others if it exists.

    Raises RunError if it belongs to another user or cannot be closed. Raises OSError.
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
