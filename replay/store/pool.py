"""The pool of a run.

If the run plays a pool, its first start stores a list of the pool's programs. Every later start compares the pool's
folder with this list. If designers vary the programs of a pool (seeds), the first start stores the programs themselves.
"""

from pathlib import Path

from replay.ledger.keys import make_seed_id
from replay.ledger.records import Change, Source
from replay.ledger.state import RunState
from replay.store.store import Store
from spade.errors import RunError
from spade.pools import SeedPool, list_names, read_list, read_program


def settle_pool(store: Store, state: RunState, folder: Path) -> None:
    """Store the pool in `folder` at the first start of a run with a pool. At a later start, check it.

    Raises RunError if the run was started with another pool, or with designers instead of a pool, or the reverse.
    """
    plays = state.config.design.source == "pool"
    if state.counters.jobs and plays != (state.pool is not None):
        began = "designers" if plays else "a pool"
        raise RunError(f"{folder.parent}: this run was started with {began} (design.source); resume it as it was")
    if not plays:
        _settle_seeds(store, state, folder)
        return
    found = read_list(folder)
    if state.pool is None:
        state.take_pool(found, None)
        store.commit(store.encode([("meta", "pool", found)]))
    elif difference := state.pool.pool.difference(found):
        raise RunError(f"{folder}: {difference} since the run started; bring back the pool it was started with")


def _settle_seeds(store: Store, state: RunState, folder: Path) -> None:
    """Store the seeds of a fresh run, if it has any. Each is also stored as a source, the parent of its variations.

    Raises RunError if a resumed run began with seeds and has none now, or the reverse.
    """
    varies = bool(state.config.design.seeds)
    if state.counters.jobs and varies != state.memory.has_seeds:
        began = "without" if varies else "with"
        raise RunError(f"{folder.parent}: this run was started {began} seeds (design.seeds); resume it as it was")
    if not varies or state.memory.has_seeds:
        return
    pool = SeedPool(tuple(read_program(folder, name) for name in list_names(folder)))
    sources: list[Change] = [
        ("sources", make_seed_id(each.name), Source(each.source, each.hint, "")) for each in pool.programs
    ]
    store.commit(store.encode([("meta", "seeds", pool), *sources]))
    state.memory.begin_with(pool.programs)
