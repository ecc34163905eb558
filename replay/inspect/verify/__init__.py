"""Check all invariants over the records of a store. Each violation is one line of text. Pure.

Records are not checked against settings that may change at a resume (limits, sizes, schedules), because a record does
not say under which settings it was made.
"""

import tomllib
from collections.abc import Iterator

from replay.inspect.contents import StoreContents
from replay.inspect.verify.batches import find_training_problems
from replay.inspect.verify.scores import score_problems
from replay.inspect.verify.work import find_work_problems
from replay.ledger.keys import make_batch_key, make_memory_key, make_queue_key, make_version_key, reject_key
from spade.config import Config, compute_digest, config_of
from spade.decoding import UnreadableError, try_decode


def find_problems(found: StoreContents) -> list[str]:
    """Return one line for each violation; empty if all invariants hold."""
    if found.damaged:
        # Stop here, because damaged records cause many further violations.
        return found.damaged
    if found.header is None:
        return ["meta run: is missing, so the settings of the run are not known"]
    try:
        settings = try_decode(_read_settings, found.header.settings.encode())
    except UnreadableError as error:
        return [f"meta run: its settings are not of this version ({error}); verify with the version that wrote them"]
    lines = list(_check_keys(found))
    if compute_digest(settings) != found.header.digest:
        lines.append(f"meta run: its settings have the digest {compute_digest(settings)}, not {found.header.digest}")
    lines += find_work_problems(found)
    lines += score_problems(found, settings)
    lines += find_training_problems(found)
    return lines


def _read_settings(data: bytes) -> Config:
    return config_of(tomllib.loads(data.decode()))


def _check_keys(found: StoreContents) -> Iterator[str]:
    """Check that every record is stored under its own key."""
    expected = {
        "jobs": {key: job.id for key, job in found.jobs.items()},
        "rejects": {key: reject_key(one.job, one.lease, one.attempt) for key, one in found.rejects.items()},
        "environments": {key: environment.id for key, environment in found.environments.items()},
        "plays": {key: play.id for key, play in found.plays.items()},
        "design_groups": {key: group.id for key, group in found.design_groups.items()},
        "queue": {key: make_queue_key(group) for key, group in found.queue.items()},
        "batches": {key: make_batch_key(batch.step) for key, batch in found.batches.items()},
        "memory": {key: make_memory_key(record) for key, record in found.memory.items()},
        "publications": {key: make_version_key(one.weights.version) for key, one in found.publications.items()},
    }
    for table, names in expected.items():
        yield from (f"{table} {key}: holds the record of {name}" for key, name in names.items() if key != name)
