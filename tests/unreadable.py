"""A folder that this process may not list, also if root runs the tests."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_VERSION_3 = 0x20080522
_READ_ANYTHING = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH

_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def unreadable(folder: Path) -> Iterator[None]:
    """Take the right to list `folder` from this thread during the block."""
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    before = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, twice
    assert _libc.capget(header, before) == 0
    mode = folder.stat().st_mode
    folder.chmod(0o100)  # a file in it can still be opened by its name
    try:
        assert _libc.capset(header, (ctypes.c_uint32 * 6)(before[0] & ~_READ_ANYTHING, *before[1:])) == 0
        yield
    finally:
        assert _libc.capset(header, before) == 0
        folder.chmod(mode)
