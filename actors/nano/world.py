"""Draw environments: a document, a family of a skill, and the program's parameters (its knobs).

Some parameters are held out: no demonstration uses them, and evaluations play them.
"""

import random
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, fields
from typing import Any

from actors.nano.families import Family, Player
from actors.nano.levels import EVERY, LEVELS, draw_varied_level
from actors.nano.themes import WORDS, convert_to_camel
from actors.text.conversation import ChatFormat
from actors.text.profile import Document, Profile
from spade.config import DomainName
from spade.seeds import derive

HELD_OUT_ONE_IN = 4
"""One in this many sets of parameters is held out."""
CANDIDATES = 8
"""Number of draws from which a variation is chosen."""


@dataclass(frozen=True)
class DrawnEnvironment:
    """A drawn environment: what was asked for, and the program."""

    skill: str
    """The skill that was asked for."""

    document: Document
    """The document that was given."""

    family: Family[Any, Any]
    """The family of the program."""

    knobs: Any
    """The program's parameters, of the family's type."""

    source: str
    """The program."""

    @property
    def hint(self) -> str:
        return self.family.hint(self.knobs)

    @property
    def name(self) -> str:
        return convert_to_camel(self.document.title) + self.family.name


@dataclass(frozen=True)
class World:
    """The procedural space of one domain."""

    name: DomainName
    """The domain."""

    families: Sequence[Family[Any, Any]]
    """The families of environments."""

    skills: Sequence[str]
    """The skills of the domain."""

    render: Callable[[str, Any, Any], str]
    """Writes the complete program from a class name, knobs and a family's part."""

    profile: Profile
    """The prompts."""

    chat_format: Callable[[], ChatFormat]
    """Makes a new `ChatFormat` for each play."""

    guesser: Callable[[random.Random], Player]
    """Makes an unskilled player."""

    skilled_unhinted: Sequence[float]
    """By level: the share of skilled players in demonstrations without the hint."""

    skilled_hinted: Sequence[float]
    """By level: the share of skilled players in demonstrations with the hint."""

    by_level: bool
    """If True, held-out environments cover all levels equally, and so do the seeds of variations. A variation is then
    at most one level from its seed."""

    fields: Sequence[str] = ()
    """Document fields that each select one family of a skill. Any other document suits all families of a skill."""

    def draw(
        self,
        rng: random.Random,
        document: Document,
        skill: str,
        *,
        unseen: bool = False,
        levels: Container[int] = EVERY,
    ) -> DrawnEnvironment:
        """Draw an environment of `skill`. `unseen` selects held-out parameters."""
        family = self.suited(rng, document, skill)
        return self.make(rng, document, skill, family, draw_knobs(rng, family, unseen, levels))

    def suited(self, rng: random.Random, document: Document, skill: str) -> Family[Any, Any]:
        """Choose a family of the skill that suits the document."""
        suited = self.list_suited(document, skill)
        return suited[0] if document.field in self.fields else rng.choice(suited)

    def list_suited(self, document: Document, skill: str) -> list[Family[Any, Any]]:
        """Return the families of the skill that suit the document: one if its field is in `fields`, else all."""
        found = [family for family in self.families if skill in family.skills]
        return [found[self.fields.index(document.field) % len(found)]] if document.field in self.fields else found

    def unseen(self, seed: int, documents: Sequence[Document], count: int) -> list[DrawnEnvironment]:
        """Draw held-out environments, equally many for each skill, and with `by_level` for each skill and level.

        A smaller `count` returns the first of the same environments.
        """
        rng = random.Random(derive(b"", "nano report: held-out", seed))
        rounds = (divmod(index, len(self.skills)) for index in range(count))
        cells = [
            (self.skills[skill], (EVERY[(turn + skill) % LEVELS],) if self.by_level else EVERY)
            for turn, skill in rounds
        ]
        return [self.draw(rng, rng.choice(documents), skill, unseen=True, levels=levels) for skill, levels in cells]

    def vary(self, rng: random.Random, document: Document, seed: DrawnEnvironment) -> DrawnEnvironment:
        """Draw CANDIDATES sets of parameters. Use the most similar one that differs from the seed's."""
        family = self.suited(rng, document, seed.skill) if self.fields else seed.family
        levels = (draw_varied_level(rng, seed.knobs.level),) if self.by_level else EVERY
        drawn = [draw_knobs(rng, family, False, levels) for _ in range(CANDIDATES)]
        changed = [knobs for knobs in drawn if knobs != seed.knobs] or drawn
        nearest = min(changed, key=lambda knobs: count_differences(knobs, seed.knobs))
        return self.make(rng, document, seed.skill, family, nearest)

    def make(
        self, rng: random.Random, document: Document, skill: str, family: Family[Any, Any], knobs: Any
    ) -> DrawnEnvironment:
        """Write the program of a family with these knobs."""
        words = draw_words(rng, document.field)
        source = self.render(convert_to_camel(document.title) + family.name, knobs, family.body(knobs, words))
        return DrawnEnvironment(skill, document, family, knobs, source)


def is_held_out(family: Family[Any, Any], knobs: object) -> bool:
    """Return True for parameters that no demonstration may use. Depends only on the parameters."""
    return derive(b"", "nano held-out", family.name, repr(knobs)) % HELD_OUT_ONE_IN == 0


def draw_knobs(rng: random.Random, family: Family[Any, Any], unseen: bool, levels: Container[int] = EVERY) -> Any:
    """Draw parameters with one of these levels. `unseen` selects held-out parameters, otherwise none is held out."""
    while (knobs := family.knobs(rng)).level not in levels or is_held_out(family, knobs) != unseen:
        pass
    return knobs


def count_differences(one: Any, other: Any) -> int:
    """Count the knobs that differ between two environments of a family."""
    return sum(getattr(one, knob.name) != getattr(other, knob.name) for knob in fields(one))


def draw_words(rng: random.Random, field: str) -> Sequence[str]:
    """Return words for actions, from the document's field, in random order."""
    words = rng.choice(WORDS.get(field, WORDS["everyday"]))
    return rng.sample(words, len(words))
