"""A family of games: knobs in levels, and a rule that is stated, or is one of two that are."""

import random
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from actors.nano.families.base import Player
from actors.nano.levels import PLAIN, draw_by_level
from actors.nano.program import Body

FACT = 'random.Random("{pair}").choice([{values}])'
"""The expression for the rule of a pair. The same pair gives the same rule in every program; no text says which."""


@dataclass(frozen=True)
class Knobs:
    """The parameters of a program; each family gives them its meaning.

    rules  the rule of the program, as its text states it; above level PLAIN the two rules of a pair, one of which holds
    """

    level: int
    turns: int
    size: int
    need: int
    rules: tuple[str, ...]

    @property
    def budget(self) -> str:
        return str(self.turns)

    @property
    def printed(self) -> bool:
        return self.level <= PLAIN and self.rules != ("",)


def paired(rules: Iterable[str]) -> list[tuple[str, str]]:
    """The rules as consecutive pairs."""
    each = iter(rules)
    return list(zip(each, each, strict=True))


class Game(ABC):
    """A kind of game, all of whose parameters can be listed.

    strategy  how it is won, for the hint
    sentence  states the rule, which is put in the place of {}
    rules     the rules, each with its value in a program
    pairs     by level above PLAIN, the two rules one of which holds in all of its programs
    spaces    all parameters, by level
    """

    name: str
    skills: tuple[str, ...]
    statement: re.Pattern[str]
    strategy: str
    sentence: str
    rules: Mapping[str, str]
    pairs: Sequence[tuple[str, str]]
    spaces: Sequence[Sequence[Knobs]]

    def knobs(self, rng: random.Random) -> Knobs:
        """See Family."""
        return draw_by_level(rng, self.spaces)

    @abstractmethod
    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        """See Family."""

    def hint(self, knobs: Knobs) -> str:
        """See Family."""
        return f"{self.strategy} {self.told(knobs)}".rstrip()

    def player(self, knobs: Knobs, informed: bool, rng: random.Random) -> Player:
        """See Family. Of a pair of rules it plays by either, since a demonstration must not tell which one holds."""
        return self.follower(knobs, rng.choice(knobs.rules), rng)

    @abstractmethod
    def follower(self, knobs: Knobs, rule: str, rng: random.Random) -> Player:
        """A skilled player that takes this rule to hold, and says so."""

    def told(self, knobs: Knobs) -> str:
        """The sentence of the first observation; "" if there is no rule."""
        rule = " or ".join(knobs.rules)
        return self.sentence.format(rule) if rule else ""

    def value(self, knobs: Knobs) -> str:
        """The expression that is the value of the rule."""
        if knobs.level <= PLAIN:
            return self.rules[knobs.rules[0]]
        pair = self.pairs[knobs.level - PLAIN - 1]
        return FACT.format(pair=" or ".join(pair), values=", ".join(self.rules[rule] for rule in pair))

    def choices(self, level: int, plain: Sequence[str]) -> list[tuple[str, ...]]:
        """The settings of `Knobs.rules` at a level; `plain`: the rules that it has up to level PLAIN."""
        if level <= PLAIN:
            return [(rule,) for rule in plain]
        one, other = self.pairs[level - PLAIN - 1]
        return [(one, other), (other, one)]
