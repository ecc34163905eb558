"""The memory of the machine: its size, and how to give freed memory back."""

import ctypes
import os

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # exists only in glibc


def trim() -> None:
    """Give back all whole pages that are free, also those between blocks in use."""
    if _trim is not None:
        _trim(0)


def count_machine_bytes() -> int:
    """Return the bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
