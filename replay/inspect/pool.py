"""Read the environments of a run as the programs of a pool."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, get_args

from replay.ledger.keys import make_version_key
from replay.ledger.records import Environment, MemoryEntry, Publication, Source
from replay.store import Store, open_reader
from replay.store.load import Header
from spade.codec import compute_program_digest
from spade.config import Skill
from spade.pools import PoolProgram, ProgramLineage

SKILLS: dict[str, Skill] = {skill: skill for skill in get_args(Skill)}


class FigureBounds(NamedTuple):
    """The least and the greatest accepted value of a figure."""

    low: float
    high: float

    def hold(self, figure: float | None) -> bool:
        """Return True if the figure was measured and lies within the bounds."""
        return figure is not None and self.low <= figure <= self.high


class Filters(NamedTuple):
    """Conditions on the environments of a run. By default every environment meets them."""

    skills: tuple[str, ...] = ()
    """Skills of the environments. An empty tuple accepts all."""

    win_rate: FigureBounds | None = None
    """Bounds of the unhinted win rate."""

    regret: FigureBounds | None = None
    """Bounds of the regret."""

    novelty: FigureBounds | None = None
    """Bounds of the novelty, which is 1 - similarity."""

    audited: bool = False
    """True accepts only environments that passed an audit."""

    def passed_by(self, environment: Environment) -> bool:
        """Return True if an environment meets all conditions."""
        score, audit, similarity = environment.score, environment.audit, environment.measures.similarity
        return (
            (not self.skills or environment.skill in self.skills)
            and (self.win_rate is None or self.win_rate.hold(score.win_rate if score else None))
            and (self.regret is None or self.regret.hold(score.regret if score else None))
            and (self.novelty is None or self.novelty.hold(None if similarity is None else 1.0 - similarity))
            and (not self.audited or (audit is not None and audit.state == "passed"))
        )


EVERY = Filters()


class PoolReader:
    """Reads the programs of a run's environments. Skips quarantined environments, and environments that fail `filters`.

    With `memory`, reads all programs in the run's memory instead. Equal programs are read once. `origin` names the run.
    """

    def __init__(self, path: Path, origin: str, memory: bool = False, filters: Filters = EVERY) -> None:
        self._path, self._origin, self._memory, self._filters = path, origin, memory, filters
        self._read: set[str] = set()  # ids of the environments read so far
        self._seen: set[str] = set()  # digests of their programs

    def new(self) -> Iterator[PoolProgram]:
        """Yield the programs that this reader has not read yet. Raises RunError if the store does not exist."""
        with open_reader(self._path) as store, store.pinned():
            for id, skill in _list_remembered(store) if self._memory else self._admitted(store):
                if id in self._read:
                    continue
                source = store.get_many("sources", [id], Source)[0]
                self._read.add(id)
                if (digest := compute_program_digest(source.source)) not in self._seen:
                    self._seen.add(digest)
                    name, origin = id.replace(":", "-"), f"environment {id} of {self._origin}"
                    lineage = _read_lineage(store, id, source)
                    yield PoolProgram(name, source.source, source.hint, SKILLS.get(skill), origin, lineage=lineage)

    def _admitted(self, store: Store) -> list[tuple[str, str]]:
        every = store.scan("environments", Environment)
        return [
            (each.id, each.skill) for each in every if each.state != "quarantined" and self._filters.passed_by(each)
        ]


def _list_remembered(store: Store) -> list[tuple[str, str]]:
    return [(record.environment, record.skill) for record in store.scan("memory", MemoryEntry)]


def _read_lineage(store: Store, id: str, source: Source) -> ProgramLineage | None:
    """Read the lineage of an environment. Returns None if the run imported the environment into its memory."""
    header, environment = store.get("meta", "run", Header), store.get("environments", id, Environment)
    if header is None or environment is None:
        return None
    version, score = environment.designed_version, environment.score
    publication = store.get("publications", make_version_key(version), Publication) if version else None
    return ProgramLineage(
        run=header.id,
        environment=id,
        name=environment.name,
        step=publication.weights.step if publication else None,
        document=environment.document,
        reads=source.reads,
        single_turn=source.single_turn,
        win_rate=score.win_rate if score else None,
        win_rate_hinted=score.win_rate_hinted if score else None,
        regret=score.regret if score else None,
        audit=environment.audit.state if environment.audit else "",
    )
