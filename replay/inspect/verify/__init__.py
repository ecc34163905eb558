"""Checks of every invariant over all records of a store, with one line for each violation. Pure.

Settings that may change at a resume (limits, sizes, schedules) are not checked, because records do not name the
settings in force.
"""

import tomllib
from collections.abc import Iterator

from replay.inspect.contents import StoreContents
from replay.inspect.verify.batches import training_problems
from replay.inspect.verify.scores import score_problems
from replay.inspect.verify.work import work_problems
from replay.ledger.keys import batch_key, memory_key, queue_key, reject_key, version_key
from spade.config import Config, config_of, digest
from spade.decoding import UnreadableError, decoded


def problems(found: StoreContents) -> list[str]:
    """Return one line for each violation; empty if all invariants hold."""
    if found.damaged:
        # Violations that follow from damaged records would fill the list.
        return found.damaged
    if found.header is None:
        return ["meta run: is missing, so nobody can say what run this is"]
    try:
        settings = decoded(_settings, found.header.settings.encode())
    except UnreadableError as error:
        return [f"meta run: its settings are not of this version ({error}); verify it with the one that made it"]
    lines = list(_keys(found))
    if digest(settings) != found.header.digest:
        lines.append(f"meta run: its settings have the digest {digest(settings)}, not {found.header.digest}")
    lines += work_problems(found)
    lines += score_problems(found, settings.reward)
    lines += training_problems(found)
    return lines


def _settings(data: bytes) -> Config:
    return config_of(tomllib.loads(data.decode()))


def _keys(found: StoreContents) -> Iterator[str]:
    """Check that every record is stored under its own key."""
    expected = {
        "jobs": {key: job.id for key, job in found.jobs.items()},
        "rejects": {key: reject_key(one.job, one.lease, one.attempt) for key, one in found.rejects.items()},
        "environments": {key: environment.id for key, environment in found.environments.items()},
        "plays": {key: play.id for key, play in found.plays.items()},
        "design_groups": {key: group.id for key, group in found.design_groups.items()},
        "queue": {key: queue_key(group) for key, group in found.queue.items()},
        "batches": {key: batch_key(batch.step) for key, batch in found.batches.items()},
        "memory": {key: memory_key(record) for key, record in found.memory.items()},
        "publications": {key: version_key(one.weights.version) for key, one in found.publications.items()},
    }
    for table, names in expected.items():
        yield from (f"{table} {key}: holds the record of {name}" for key, name in names.items() if key != name)
