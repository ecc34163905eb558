"""Drawing environments: a skill, a document, a family of the skill, and knobs from one side of the partition."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, fields

from actors.nano.families import FAMILIES, Family, Knobs
from actors.nano.program import render
from actors.nano.themes import WORDS, camel
from actors.text.profile import Document
from spade.config import SKILLS
from spade.seeds import derive

HELD_OUT_ONE_IN = 4
CANDIDATES = 8
"""Number of draws that a variation is chosen from."""


@dataclass(frozen=True)
class DrawnEnvironment:
    """A drawn environment: the demand and the result."""

    skill: str
    document: Document
    family: Family
    knobs: Knobs
    source: str

    @property
    def hint(self) -> str:
        return self.family.hint(self.knobs)

    @property
    def name(self) -> str:
        return camel(self.document.title) + self.family.name


def held_out(family: Family, knobs: Knobs) -> bool:
    """True for parameters kept away from every demonstration: a stable property of theirs."""
    return derive(b"", "nano held-out", family.name, repr(knobs)) % HELD_OUT_ONE_IN == 0


def draw(rng: random.Random, document: Document, skill: str, *, unseen: bool = False) -> DrawnEnvironment:
    """An environment of `skill`, from the held-out side of the partition if `unseen`."""
    family = rng.choice([family for family in FAMILIES if skill in family.skills])
    return make(rng, document, skill, family, draw_knobs(rng, family, unseen))


def unseen(seed: int, documents: Sequence[Document], count: int) -> list[DrawnEnvironment]:
    """Environments from the held-out side of the partition, as many for each skill; fewer are the first of more."""
    rng = random.Random(derive(b"", "nano report: held-out", seed))
    return [draw(rng, rng.choice(documents), SKILLS[index % len(SKILLS)], unseen=True) for index in range(count)]


def draw_knobs(rng: random.Random, family: Family, unseen: bool) -> Knobs:
    """Parameters from the wanted side of the partition."""
    while held_out(family, knobs := family.knobs(rng)) != unseen:
        pass
    return knobs


def vary(rng: random.Random, document: Document, seed: DrawnEnvironment) -> DrawnEnvironment:
    """Another environment of the seed's skill and family, near to it but for the document."""
    drawn = [draw_knobs(rng, seed.family, False) for _ in range(CANDIDATES)]
    changed = [knobs for knobs in drawn if knobs != seed.knobs] or drawn
    return make(rng, document, seed.skill, seed.family, min(changed, key=lambda knobs: distance(knobs, seed.knobs)))


def distance(one: Knobs, other: Knobs) -> int:
    """In how many knobs two environments of a family differ."""
    return sum(getattr(one, knob.name) != getattr(other, knob.name) for knob in fields(Knobs))


def make(rng: random.Random, document: Document, skill: str, family: Family, knobs: Knobs) -> DrawnEnvironment:
    """Write the program."""
    words = theme(rng, document.field)
    source = render(camel(document.title) + family.name, knobs.turns, family.body(knobs, words))
    return DrawnEnvironment(skill, document, family, knobs, source)


def theme(rng: random.Random, field: str) -> Sequence[str]:
    """Words to act with, from the document's field."""
    words = rng.choice(WORDS.get(field, WORDS["everyday"]))
    return rng.sample(words, len(words))
