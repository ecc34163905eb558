"""The pool of a run. Its list is kept when the run starts, and every later start compares its folder with the list.

If the run's designers vary seeds, the programs themselves are kept.
"""

from pathlib import Path

from replay.ledger.keys import make_seed_id
from replay.ledger.records import Change, Source
from replay.ledger.state import RunState
from replay.store.store import Store
from spade.errors import RunError
from spade.pools import SeedPool, list_names, read_list, read_program


def settle_pool(store: Store, state: RunState, folder: Path) -> None:
    """Take the pool in `folder` into a fresh run that plays a pool, or whose designers vary its programs.

    Raises RunError if the run was started with another pool, or with designers instead.
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
    """Store the seeds of a fresh run, as programs that environments may have varied."""
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
