"""The environments of a run as the programs of a pool."""

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from replay.ledger.records import Environment, Remembered, Source
from replay.store import Store, open_reader
from spade.codec import program_digest
from spade.config import Skill
from spade.pools import PoolProgram

SKILLS: dict[str, Skill] = {skill: skill for skill in get_args(Skill)}


def read_pool(path: Path, origin: str, memory: bool = False) -> Iterator[PoolProgram]:
    """The environments of a store that were not quarantined, or those of its memory; a program that comes again once.

    `origin` names the run. Raises RunError if there is no store.
    """
    seen: set[str] = set()
    with open_reader(path) as store, store.pinned():
        for id, skill in _remembered(store) if memory else _admitted(store):
            source = store.get_many("sources", [id], Source)[0]
            if (digest := program_digest(source.source)) not in seen:
                seen.add(digest)
                name = id.replace(":", "-")
                yield PoolProgram(name, source.source, source.hint, SKILLS.get(skill), f"environment {id} of {origin}")


def _remembered(store: Store) -> list[tuple[str, str]]:
    return [(record.environment, record.skill) for record in store.scan("memory", Remembered)]


def _admitted(store: Store) -> list[tuple[str, str]]:
    every = store.scan("environments", Environment)
    return [(each.id, each.skill) for each in every if each.state != "quarantined"]
