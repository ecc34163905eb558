"""Files and folders that others rely on: made durable, and deleted whole."""

import errno
import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from typing import BinaryIO

from spade.errors import RunError

DRAFT = ".draft-"
"""How the name of a folder begins that is being written, is being deleted, or was left by a crash in either."""


def out_of_descriptors(error: OSError) -> bool:
    """Whether a file cannot be opened since too many are; connections that others make may use them up."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def sync(path: Path) -> None:
    """Make a file, or the names in a folder, survive the machine. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def discard(folder: Path) -> None:
    """Delete a folder that others may be reading: its name goes first, so that who finds it finds it whole.

    Raises OSError.
    """
    draft = Path(tempfile.mkdtemp(prefix=DRAFT, dir=folder.parent))
    os.replace(folder, draft)
    rmtree(draft)


def hold(file: Path) -> BinaryIO:
    """Keep the folder of `file` from `discard_unless_held` until the result is closed or its process ends.

    Raises OSError; FileNotFoundError where it is gone.
    """
    opened = file.open("rb")
    fcntl.flock(opened, fcntl.LOCK_SH)
    if not file.exists():  # it was discarded before it was held
        opened.close()
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(file))
    return opened


def discard_unless_held(folder: Path, name: str) -> None:
    """Delete a folder, but where a process holds its file `name` (`hold`). Raises OSError."""
    try:
        file = (folder / name).open("r+b")
    except FileNotFoundError:
        discard(folder)
        return
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        discard(folder)


@contextmanager
def whole(folder: Path) -> Iterator[Path]:
    """Where to make what takes the name of `folder` when the block is done. Raises RunError where that exists."""
    if folder.exists():
        raise RunError(f"{folder}: exists already; give a new directory")
    part = folder.with_name(f"{folder.name}.part")
    rmtree(part, ignore_errors=True)
    yield part
    part.rename(folder)
