"""The pool of a run: its list is kept when the run starts, and every later start compares its folder with that."""

from pathlib import Path

from replay.ledger.state import RunState
from replay.store.store import Store
from spade.errors import RunError
from spade.pools import listed


def settle_pool(store: Store, state: RunState, folder: Path) -> None:
    """Take the pool in `folder` into a fresh run that plays one.

    Raises RunError where the run has another pool, or designers.
    """
    plays = state.config.design.source == "pool"
    if state.counters.jobs and plays != (state.pool is not None):
        began = "designers" if plays else "a pool"
        raise RunError(f"{folder.parent}: this run was started with {began} (design.source); resume it as it was")
    if not plays:
        return
    found = listed(folder)
    if state.pool is None:
        state.take_pool(found, None)
        store.commit(store.encode([("meta", "pool", found)]))
    elif difference := state.pool.pool.difference(found):
        raise RunError(f"{folder}: {difference} since the run started; bring back the pool it was started with")
