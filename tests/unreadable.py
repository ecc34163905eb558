"""Folders that this process may not list or not write, also if root runs the tests."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_VERSION_3 = 0x20080522
_IGNORE_MODES = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH

_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def unreadable(folder: Path) -> Iterator[None]:
    """Take the right to list `folder` from this thread during the block."""
    with _obeyed_modes():
        mode = folder.stat().st_mode
        folder.chmod(0o100)  # a file in it can still be opened by its name
        try:
            yield
        finally:
            folder.chmod(mode)


@contextmanager
def unwritable(root: Path) -> Iterator[None]:
    """Take the right to write in `root`, and all that is below it, from this thread during the block."""
    modes = {path: path.stat().st_mode for path in (root, *root.rglob("*"))}
    with _obeyed_modes():
        try:
            for path, mode in modes.items():
                path.chmod(mode & 0o555)
            yield
        finally:
            for path, mode in modes.items():
                path.chmod(mode)


@contextmanager
def _obeyed_modes() -> Iterator[None]:
    """Take root's right to ignore the modes of files from this thread during the block."""
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    before = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, twice
    assert _libc.capget(header, before) == 0
    try:
        assert _libc.capset(header, (ctypes.c_uint32 * 6)(before[0] & ~_IGNORE_MODES, *before[1:])) == 0
        yield
    finally:
        assert _libc.capset(header, before) == 0
