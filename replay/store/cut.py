"""Whether a store's file still has all it needs: a page of the map that is past the file's end kills who reads it."""

import subprocess
import sys
from pathlib import Path

import lmdb

from spade.errors import RunError

_CHUNK = 1 << 20
_READ_ALL = "import lmdb, sys; lmdb.open(sys.argv[1], readonly=True, max_dbs=64).copyfd(1, compact=True)"


def check_length(environment: lmdb.Environment) -> None:
    """Raises RunError where the file of an environment was cut short.

    A file may end before its last page: LMDB does not write the free ones. So where it does, a child reads all others.
    """
    path = Path(environment.path())
    data = path / "data.mdb"
    needed = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    size = data.stat().st_size  # asked second, so that a writer's next commit does not make it look short
    if size < needed and not _readable(path):
        raise RunError(f"{data}: only {size} bytes of {needed} are there; the store is damaged, restore it from a copy")


def _readable(path: Path) -> bool:
    """Whether a child lives through reading every page that is in use."""
    command = [sys.executable, "-c", _READ_ALL, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout is not None
        while child.stdout.read(_CHUNK):
            pass
    return child.returncode == 0
