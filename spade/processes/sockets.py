"""Folders for Unix sockets. A socket's path has at most 107 bytes on Linux, so these folders have short paths."""

import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree

from spade.errors import RunError

LONGEST_PATH = 107  # bytes
NAME_BYTES = 40  # bytes of a path for the name of the socket
_ALWAYS_SHORT = ("/tmp", "/var/tmp")  # tried after TMPDIR


def is_short_enough(folder: Path) -> bool:
    """Return True if sockets in this folder have paths that are short enough."""
    return len(os.fsencode(folder)) + NAME_BYTES <= LONGEST_PATH


def make_short_folder(name: str, owner: object) -> Path:
    """Make or reuse the private folder `name` in the first temporary directory with a path short enough for sockets.

    `owner` names the user of the sockets in an error. Raises RunError if no directory fits, or if the folder belongs to
    somebody else.
    """
    given = tempfile.gettempdir()
    for parent in dict.fromkeys((given, *_ALWAYS_SHORT)):
        folder = Path(parent) / name
        if is_short_enough(folder):
            with suppress(OSError):  # this folder cannot be written, but the next one may be
                make_closed(folder)
                return folder
    raise RunError(
        f"{owner}: there is no place for its sockets, whose paths have at most {LONGEST_PATH} bytes: {given} and "
        f"{', '.join(_ALWAYS_SHORT)} are too long or cannot be written; set TMPDIR to a short path"
    )


@contextmanager
def make_temporary_folder(owner: object) -> Iterator[Path]:
    """Make a new private folder for sockets and delete it after the block. Raises as `make_short_folder` does."""
    folder = make_short_folder(f"spade-{os.getuid()}-{secrets.token_hex(8)}", owner)
    try:
        yield folder
    finally:
        rmtree(folder, ignore_errors=True)


def make_closed(folder: Path) -> None:
    """Make a private folder in a place open to all users, or reuse one that is ours and private.

    Raises RunError, OSError.
    """
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not (stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077):
        raise RunError(
            f"{folder}: sockets would go here, but it belongs to another user or is open to others; delete it, or "
            "choose a shorter --run, whose sockets stay in the run directory"
        )
