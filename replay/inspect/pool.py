"""The environments of a run as the programs of a pool."""

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from replay.ledger.records import Environment, Remembered, Source
from replay.store import Store, open_reader
from spade.codec import compute_program_digest
from spade.config import Skill
from spade.pools import PoolProgram

SKILLS: dict[str, Skill] = {skill: skill for skill in get_args(Skill)}


class PoolReader:
    """The environments of a store that were not quarantined, or only its memory. Each program comes once.

    `origin` names the run.
    """

    def __init__(self, path: Path, origin: str, memory: bool = False) -> None:
        self._path, self._origin, self._memory = path, origin, memory
        self._read: set[str] = set()  # ids
        self._seen: set[str] = set()  # digests of programs

    def new(self) -> Iterator[PoolProgram]:
        """Yield the programs that this reader has not read yet. Raises RunError if the store does not exist."""
        with open_reader(self._path) as store, store.pinned():
            for id, skill in _list_remembered(store) if self._memory else _list_admitted(store):
                if id in self._read:
                    continue
                source = store.get_many("sources", [id], Source)[0]
                self._read.add(id)
                if (digest := compute_program_digest(source.source)) not in self._seen:
                    self._seen.add(digest)
                    name, origin = id.replace(":", "-"), f"environment {id} of {self._origin}"
                    yield PoolProgram(name, source.source, source.hint, SKILLS.get(skill), origin)


def _list_remembered(store: Store) -> list[tuple[str, str]]:
    return [(record.environment, record.skill) for record in store.scan("memory", Remembered)]


def _list_admitted(store: Store) -> list[tuple[str, str]]:
    every = store.scan("environments", Environment)
    return [(each.id, each.skill) for each in every if each.state != "quarantined"]
