"""Commits to the store at argv[1] until the disk is full (files end at argv[2] bytes if given); then what is there."""

import os
import resource
import sys
from pathlib import Path

from replay.ledger.records import Reject
from replay.store import open_store
from spade.errors import RunError

path = Path(sys.argv[1])
if len(sys.argv) > 2:
    most = int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
committed = 0
try:
    with open_store(path, "sync") as store:
        while True:
            kept = Reject("j", 1, 1, "s", "d", os.urandom(5_000).hex(), "parse", "no class", 0.0)
            store.commit(store.encode([("rejects", f"{committed + i:06d}", kept) for i in range(10)]))
            committed += 10
except RunError as error:
    print(error)
with open_store(path, "nosync") as store:
    print([len(record.completion) for record in store.scan("rejects", Reject)] == [10_000] * committed)
    # A disk that has room for the free pages it already has takes what they hold.
    store.commit(store.encode([("rejects", "000000", None)]))
    print(len(store.scan("rejects", Reject)) == committed - 1, committed > 50)
