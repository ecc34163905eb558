"""The one durable store of a run, on LMDB, and the only package that imports it.

An acknowledgement means that `commit` returned. With durability "sync" that survives the machine's death, with
"nosync" the process's. Readers in other processes see the last commit, while the service is up or not.
"""

from replay.store.opening import FORMAT, Format, lock, open_reader, open_store
from replay.store.store import Extent, Store

__all__ = ["FORMAT", "Extent", "Format", "Store", "lock", "open_reader", "open_store"]
