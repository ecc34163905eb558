"""Drawing environments: a skill, a document, a family of the skill, and knobs from one side of the partition."""

import random
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, fields
from typing import Any

from actors.nano.families import Family, Player
from actors.nano.levels import EVERY, LEVELS, varied_level
from actors.nano.themes import WORDS, camel
from actors.text.conversation import Talk
from actors.text.profile import Document, Profile
from spade.config import DomainName
from spade.seeds import derive

HELD_OUT_ONE_IN = 4
CANDIDATES = 8
"""Number of draws that a variation is chosen from."""


@dataclass(frozen=True)
class DrawnEnvironment:
    """A drawn environment: the demand and the result."""

    skill: str
    document: Document
    family: Family[Any, Any]
    knobs: Any
    source: str

    @property
    def hint(self) -> str:
        return self.family.hint(self.knobs)

    @property
    def name(self) -> str:
        return camel(self.document.title) + self.family.name


@dataclass(frozen=True)
class World:
    """The procedural space of one domain.

    render            class name, knobs and a family's part to the complete program
    talk              the words of a play, made anew for each
    guesser           the unskilled player
    skilled_unhinted  by level, the share of skilled players in demonstrations without the hint
    skilled_hinted    the same with the hint
    by_level          held-out environments are as many of each level, and so are the seeds of variations, which are a
                      level apart at most; else all are of any
    fields            the fields of documents, each of which means one family of a skill; none: it may be any
    """

    name: DomainName
    families: Sequence[Family[Any, Any]]
    skills: Sequence[str]
    render: Callable[[str, Any, Any], str]
    profile: Profile
    talk: Callable[[], Talk]
    guesser: Callable[[random.Random], Player]
    skilled_unhinted: Sequence[float]
    skilled_hinted: Sequence[float]
    by_level: bool
    fields: Sequence[str] = ()

    def draw(
        self,
        rng: random.Random,
        document: Document,
        skill: str,
        *,
        unseen: bool = False,
        levels: Container[int] = EVERY,
    ) -> DrawnEnvironment:
        """An environment of `skill`, from the held-out side of the partition if `unseen`."""
        family = self.suited(rng, document, skill)
        return self.make(rng, document, skill, family, draw_knobs(rng, family, unseen, levels))

    def suited(self, rng: random.Random, document: Document, skill: str) -> Family[Any, Any]:
        """A family that the document may mean for the skill."""
        meant = self.meant(document, skill)
        return meant[0] if document.field in self.fields else rng.choice(meant)

    def meant(self, document: Document, skill: str) -> list[Family[Any, Any]]:
        """The families that the document may mean for the skill: one, if its field says which."""
        kin = self.kin(skill)
        return [kin[self.fields.index(document.field) % len(kin)]] if document.field in self.fields else kin

    def kin(self, skill: str) -> list[Family[Any, Any]]:
        """The families of a skill."""
        return [family for family in self.families if skill in family.skills]

    def unseen(self, seed: int, documents: Sequence[Document], count: int) -> list[DrawnEnvironment]:
        """Environments from the held-out side, as many for each skill; fewer are the first of more.

        In a world by level, there are as many for each skill and level.
        """
        rng = random.Random(derive(b"", "nano report: held-out", seed))
        rounds = (divmod(index, len(self.skills)) for index in range(count))
        cells = [
            (self.skills[skill], (EVERY[(turn + skill) % LEVELS],) if self.by_level else EVERY)
            for turn, skill in rounds
        ]
        return [self.draw(rng, rng.choice(documents), skill, unseen=True, levels=levels) for skill, levels in cells]

    def vary(self, rng: random.Random, document: Document, seed: DrawnEnvironment) -> DrawnEnvironment:
        """Another environment of the seed's skill, the nearest of a few that are drawn."""
        family = self.suited(rng, document, seed.skill) if self.fields else seed.family
        levels = (varied_level(rng, seed.knobs.level),) if self.by_level else EVERY
        drawn = [draw_knobs(rng, family, False, levels) for _ in range(CANDIDATES)]
        changed = [knobs for knobs in drawn if knobs != seed.knobs] or drawn
        nearest = min(changed, key=lambda knobs: distance(knobs, seed.knobs))
        return self.make(rng, document, seed.skill, family, nearest)

    def make(
        self, rng: random.Random, document: Document, skill: str, family: Family[Any, Any], knobs: Any
    ) -> DrawnEnvironment:
        """Write the program."""
        words = theme(rng, document.field)
        source = self.render(camel(document.title) + family.name, knobs, family.body(knobs, words))
        return DrawnEnvironment(skill, document, family, knobs, source)


def held_out(family: Family[Any, Any], knobs: object) -> bool:
    """True for parameters kept away from every demonstration: a stable property of theirs."""
    return derive(b"", "nano held-out", family.name, repr(knobs)) % HELD_OUT_ONE_IN == 0


def draw_knobs(rng: random.Random, family: Family[Any, Any], unseen: bool, levels: Container[int] = EVERY) -> Any:
    """Parameters of the wanted levels and side of the partition."""
    while (knobs := family.knobs(rng)).level not in levels or held_out(family, knobs) != unseen:
        pass
    return knobs


def distance(one: Any, other: Any) -> int:
    """In how many knobs two environments of a family differ."""
    return sum(getattr(one, knob.name) != getattr(other, knob.name) for knob in fields(one))


def theme(rng: random.Random, field: str) -> Sequence[str]:
    """Words to act with, from the document's field."""
    words = rng.choice(WORDS.get(field, WORDS["everyday"]))
    return rng.sample(words, len(words))
