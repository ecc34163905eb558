"""Import the environment memory of an old run into a new run."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from replay.ledger.keys import make_imported_id, make_memory_key
from replay.ledger.records import MemoryEntry, Source
from replay.ledger.state import RunState
from replay.store import Store, open_reader
from replay.store.load import Header
from spade.config import Config
from spade.errors import RunError


class ImportCounts(msgspec.Struct, frozen=True):
    """Counts of the old memory's records."""

    taken: int
    """Number of records that were added to the new run's memory."""
    known: int
    """Number of records that the new run already had."""
    foreign: int
    """Number of records with a skill that the new run lacks."""


def read_memory(path: Path) -> list[tuple[MemoryEntry, Source]]:
    """Read a run's memory with its programs, the oldest first, under ids that no other run has.

    Raises RunError if the store does not exist or holds no run.
    """
    with open_reader(path) as store, store.pinned():
        header = store.get("meta", "run", Header)
        if header is None:
            raise RunError(f"{path}: no run was ever started in this store")
        records = store.scan("memory", MemoryEntry)
        sources = store.get_many("sources", [record.environment for record in records], Source)
    ids = (make_imported_id(header.id, record.environment) for record in records)
    renamed = (msgspec.structs.replace(record, environment=id) for record, id in zip(records, ids, strict=True))
    return list(zip(renamed, sources, strict=True))


def import_memory(store: Store, state: RunState, memory: Sequence[tuple[MemoryEntry, Source]]) -> ImportCounts:
    """Append records to the run's memory as its newest, and commit.

    Skips records that the memory has or once had, and records with a skill that the run lacks.
    """
    taken, known, foreign = 0, 0, 0
    for old, source in memory:
        if old.skill not in state.config.run.skills:
            foreign += 1
        elif store.get("sources", old.environment, Source) is not None:
            known += 1
        else:
            taken += 1
            record = msgspec.structs.replace(old, number=state.counters.remembered)
            state.counters.remembered += 1
            state.touch("sources", record.environment, source)
            state.touch("memory", make_memory_key(record), record)
            for forgotten in state.memory.add(record):
                state.delete("memory", make_memory_key(forgotten))
    if changes := state.changes():
        store.commit(store.encode(changes))
    return ImportCounts(taken, known, foreign)


def check_fit(new: Config, old: Config) -> None:
    """Check that programs and figures mean the same in both runs. Raises RunError with the first difference."""
    for name, ours, theirs in (
        ("run.domain", new.run.domain, old.run.domain),
        ("model.profile", new.model.profile, old.model.profile),
        ("play.win_return", new.play.win_return, old.play.win_return),
    ):
        if ours != theirs:
            raise RunError(
                f"{name} is {ours!r} in this run and {theirs!r} in the old run, so the old memory does not fit; "
                f"import it into a run with {name} = {theirs!r}"
            )
