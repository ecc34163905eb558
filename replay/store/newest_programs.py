"""The programs that were admitted last, for the measurement of their diversity."""

from replay.ledger.records import Environment, Source
from replay.store.store import Store
from spade.protocol import NewestPrograms


def read_newest_programs(store: Store, count: int, room: int) -> NewestPrograms:
    """Return the `count` newest admitted programs of the run, ordered by their jobs, the oldest first.

    Returns fewer if they would exceed `room` bytes together.
    """
    newest: list[str] = []
    # The table of sources does not sort by age, because it also holds seeds and imported programs.
    for environment in store.last("environments", Environment, count):
        (record,) = store.get_many("sources", [environment.id], Source)
        room -= len(record.source.encode())
        if room < 0:
            break
        newest.append(record.source)
    return NewestPrograms(tuple(reversed(newest)))
