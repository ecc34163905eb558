"""Read the newest admitted programs, whose diversity is measured."""

from replay.ledger.records import Environment, Source
from replay.store.store import Store
from spade.protocol import NewestPrograms


def read_newest_programs(store: Store, count: int, room: int) -> NewestPrograms:
    """Return up to `count` of the newest admitted programs, in the order of their jobs.

    Leaves out the oldest of them if all together would exceed `room` bytes.
    """
    newest: list[str] = []
    # The keys of environments sort by age. The keys of sources do not, because some are seeds or imported programs.
    for environment in store.last("environments", Environment, count):
        (record,) = store.get_many("sources", [environment.id], Source)
        room -= len(record.source.encode())
        if room < 0:
            break
        newest.append(record.source)
    return NewestPrograms(tuple(reversed(newest)))
