"""Errors of LMDB as a line for a person: a disk that is full, one that cannot be written, a store that is damaged."""

import errno
import os
import resource
import tempfile
from pathlib import Path

import lmdb

from replay.store.seal import DamagedError
from spade.errors import RunError

_PROBE_BYTES = 1 << 20
_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "its file may not grow (a limit on the size of files)",
}
_SYSTEM = (*_FULL, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


def unwritable(path: str, error: lmdb.Error) -> RunError:
    """Why a commit failed."""
    number = _number(error)
    if number == errno.EIO:
        number = _cause(Path(path))
    if number is None:
        return DamagedError(path, f"cannot be written ({error})")
    if number in _FULL:
        return RunError(
            f"{path}: the store cannot be written: {_FULL[number]}. "
            "Nothing acknowledged is lost: free space, then the same command goes on"
        )
    return RunError(f"{path}: the store cannot be written: {os.strerror(number)}. Nothing acknowledged is lost")


def unreadable(path: str, error: lmdb.Error | OSError) -> RunError:
    """Why a store cannot be opened, or a transaction not be begun."""
    return RunError(f"{path}: no store can be read here ({error})")


def _number(error: lmdb.Error) -> int | None:
    """The system's error; None where it is LMDB's own. py-lmdb has it in words alone."""
    return next((number for number in _SYSTEM if os.strerror(number) in str(error)), None)


def _cause(path: Path) -> int:
    """The true error of a write that LMDB calls an input/output error, as one is of which the disk took a part."""
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit != resource.RLIM_INFINITY and (path / "data.mdb").stat().st_size + _PROBE_BYTES > limit:
        return errno.EFBIG
    try:
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(bytes(_PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return error.errno or errno.EIO
    return errno.EIO
