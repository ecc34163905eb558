"""Turn LMDB's errors into one line for a person: a full disk, a disk that cannot be written, a damaged store."""

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


def make_unwritable_error(path: str, error: lmdb.Error) -> RunError:
    """Return the error of a failed commit."""
    number = _parse_number(error)
    if number == errno.EIO:
        number = _find_cause(Path(path))
    if number is None:
        return DamagedError(path, f"cannot be written ({error})")
    if number in _FULL:
        return RunError(
            f"{path}: the store cannot be written: {_FULL[number]}. "
            "Nothing acknowledged is lost; free space and repeat the command"
        )
    return RunError(f"{path}: the store cannot be written: {os.strerror(number)}. Nothing acknowledged is lost")


def make_unreadable_error(path: str, error: lmdb.Error | OSError) -> RunError:
    """Return the error of a store that cannot be opened, or of a transaction that cannot begin."""
    return RunError(f"{path}: no store can be read here ({error})")


def _parse_number(error: lmdb.Error) -> int | None:
    """Find the system's error number by the error's text, because py-lmdb gives no number.

    Returns None if the error is not from the system.
    """
    return next((number for number in _SYSTEM if os.strerror(number) in str(error)), None)


def _find_cause(path: Path) -> int:
    """Find the true cause of LMDB's input/output error. LMDB also reports a partial write in this way."""
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
