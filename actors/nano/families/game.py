"""A family of games: parameters by level, and a rule.

An easy program states its rule. A harder one states two rules, and one of them holds.
"""

import random
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from actors.nano.families.base import Player
from actors.nano.levels import PLAIN, draw_by_level
from actors.nano.program import Body

FACT = 'random.Random("{pair}").choice([{values}])'
"""Expression that chooses one rule of a pair: the same rule in every program with this pair. The program's text does
not show which one."""


@dataclass(frozen=True)
class Knobs:
    """The parameters of a program. Each family gives them a meaning."""

    level: int
    """The difficulty, 1 to LEVELS."""

    turns: int
    """The limit of turns."""

    size: int
    """The size of the instance."""

    need: int
    """The second parameter of the family. In most families it is the number of successes needed to win."""

    rules: tuple[str, ...]
    """The rule as the program's text states it. Above level PLAIN: the two rules of a pair, one of which holds."""

    @property
    def budget(self) -> str:
        return str(self.turns)

    @property
    def printed(self) -> bool:
        return self.level <= PLAIN and self.rules != ("",)


def pair_rules(rules: Iterable[str]) -> list[tuple[str, str]]:
    """Group the rules into consecutive pairs."""
    each = iter(rules)
    return list(zip(each, each, strict=True))


class Game(ABC):
    """A kind of game with a finite list of parameters."""

    name: str
    """The last word of a program's class name, before "Env"."""

    skills: tuple[str, ...]
    """The skills that the family trains."""

    statement: re.Pattern[str]
    """Matches the sentence that states the rule."""

    strategy: str
    """The strategy that wins, for the hint."""

    sentence: str
    """The sentence that states the rule, with {} for the rule."""

    rules: Mapping[str, str]
    """Each rule with its value in a program."""

    pairs: Sequence[tuple[str, str]]
    """For each level above PLAIN: two rules, one of which holds in all programs of the level."""

    spaces: Sequence[Sequence[Knobs]]
    """All parameters, by level."""

    def knobs(self, rng: random.Random) -> Knobs:
        """See Family."""
        return draw_by_level(rng, self.spaces)

    @abstractmethod
    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        """See Family."""

    def hint(self, knobs: Knobs) -> str:
        """See Family."""
        return f"{self.strategy} {self.word_rule(knobs)}".rstrip()

    def player(self, knobs: Knobs, informed: bool, rng: random.Random) -> Player:
        """See Family.

        With a pair of rules, it plays by one of them at random, since a demonstration must not reveal the right one.
        """
        return self.follower(knobs, rng.choice(knobs.rules), rng)

    @abstractmethod
    def follower(self, knobs: Knobs, rule: str, rng: random.Random) -> Player:
        """Return a skilled player that assumes this rule."""

    def word_rule(self, knobs: Knobs) -> str:
        """Return the sentence that states the rule, or "" without a rule."""
        rule = " or ".join(knobs.rules)
        return self.sentence.format(rule) if rule else ""

    def value(self, knobs: Knobs) -> str:
        """Return the expression of the rule's value."""
        if knobs.level <= PLAIN:
            return self.rules[knobs.rules[0]]
        pair = self.pairs[knobs.level - PLAIN - 1]
        return FACT.format(pair=" or ".join(pair), values=", ".join(self.rules[rule] for rule in pair))

    def choices(self, level: int, plain: Sequence[str]) -> list[tuple[str, ...]]:
        """List the settings of `Knobs.rules` at a level. `plain` lists the rules of levels up to PLAIN."""
        if level <= PLAIN:
            return [(rule,) for rule in plain]
        one, other = self.pairs[level - PLAIN - 1]
        return [(one, other), (other, one)]
