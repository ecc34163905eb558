"""The one durable store of a run, on LMDB, and the only package that imports LMDB.

A change is acknowledged when `commit` has returned. With durability "sync" a commit survives the death of the machine,
with "nosync" only the death of the process. Readers in other processes see the last commit, whether the service is up
or not.
"""

from replay.store.check import FORMAT, Format, is_short
from replay.store.opening import lock, open_reader, open_store
from replay.store.seal import DamagedError
from replay.store.store import Commit, Store, TableSize

__all__ = [
    "FORMAT",
    "Commit",
    "DamagedError",
    "Format",
    "Store",
    "TableSize",
    "is_short",
    "lock",
    "open_reader",
    "open_store",
]
