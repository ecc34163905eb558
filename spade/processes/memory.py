"""Give freed memory back to the system."""

import ctypes

_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # exists only in glibc


def trim() -> None:
    """Give back all whole pages that are free, also those between blocks in use."""
    if _trim is not None:
        _trim(0)
