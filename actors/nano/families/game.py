"""A family of games: knobs in levels, and a rule that is stated plainly or in words of the level."""

import random
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from actors.nano.families.base import Player
from actors.nano.levels import EVERY, PLAIN, draw_by_level
from actors.nano.lexicon import lexicon
from actors.nano.program import Body

BEGINNINGS = dict(zip(EVERY[PLAIN:], "bgkt", strict=True))
"""By level, the consonant that its words begin with."""

DRAWN = 2
"""Number of words that a program draws from."""


@dataclass(frozen=True)
class Knobs:
    """The parameters of a program; each family gives them its meaning.

    rules  as it is said, and plainly: the rule of the program; above level PLAIN those that an instance draws from
    """

    level: int
    turns: int
    size: int
    need: int
    rules: tuple[tuple[str, str], ...]

    @property
    def budget(self) -> str:
        return str(self.turns)

    @property
    def worded(self) -> bool:
        """The rule is stated in words of the level."""
        return self.level > PLAIN

    @property
    def printed(self) -> bool:
        return not self.worded and self.rules != (("", ""),)


class Game(ABC):
    """A kind of game, all of whose parameters can be listed.

    strategy  how it is won, for the hint
    sentence  states the rule, which is put in the place of {}
    rules     the plain rules, each with its values in a program
    meant     those that words mean
    middle    the consonant in the middle of its words
    spaces    all parameters, by level
    """

    name: str
    skills: tuple[str, ...]
    statement: re.Pattern[str]
    strategy: str
    sentence: str
    rules: Mapping[str, str]
    meant: Sequence[str]
    middle: str
    spaces: Sequence[Sequence[Knobs]]

    def knobs(self, rng: random.Random) -> Knobs:
        """See Family."""
        return draw_by_level(rng, self.spaces)

    @abstractmethod
    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        """See Family."""

    def hint(self, knobs: Knobs) -> str:
        """See Family."""
        if knobs.worded:
            return f"{self.strategy} {', '.join(f'{word} is {rule}' for word, rule in knobs.rules)}."
        return f"{self.strategy} {self.told(knobs)}".rstrip()

    def player(self, knobs: Knobs, informed: bool, rng: random.Random) -> Player:
        """See Family. A player who is not informed takes each word for one of the rules, whichever."""
        if not knobs.worded:
            return self.follower(knobs, knobs.rules[0][1], rng)
        meant = {word: rule if informed else rng.choice(self.meant) for word, rule in knobs.rules}
        return Interpreter(meant, lambda rule: self.follower(knobs, rule, rng))

    def reworded(self, rng: random.Random, knobs: Knobs) -> Knobs:
        """The same, but for what its words mean."""
        words = (word for word, _ in knobs.rules)
        return replace(knobs, rules=tuple(zip(words, rng.sample(self.meant, DRAWN), strict=True)))

    @abstractmethod
    def follower(self, knobs: Knobs, rule: str, rng: random.Random) -> Player:
        """A skilled player who takes the rule to be this one."""

    def lexicon(self, level: int) -> dict[str, str]:
        """The words of a level above PLAIN, with the rule that each means."""
        return lexicon(BEGINNINGS[level], self.middle, self.meant)

    def drawn(self, knobs: Knobs, names: str) -> str:
        """The line that sets the rule of an instance, whose values in the program are `names`."""
        if not knobs.worded:
            return f"{names} = {self.rules[knobs.rules[0][1]]}"
        choices = ", ".join(f'("{word}", {self.rules[rule]})' for word, rule in knobs.rules)
        return f"self.word, {names} = self.rng.choice([{choices}])"

    def told(self, knobs: Knobs) -> str:
        """The sentence of the first observation, a part of an f-string; "" if there is no rule."""
        rule = "{self.word}" if knobs.worded else knobs.rules[0][0]
        return self.sentence.format(rule) if rule else ""

    def choices(self, level: int, plain: Sequence[str]) -> list[tuple[tuple[str, str], ...]]:
        """The settings of `Knobs.rules` at a level; `plain`: the rules that it has if it states them plainly."""
        if level <= PLAIN:
            return [((rule, rule),) for rule in plain]
        return list(combinations(self.lexicon(level).items(), DRAWN))


class Interpreter:
    """Says what the word of the first observation means to it, and plays by that rule."""

    def __init__(self, meant: Mapping[str, str], follower: Callable[[str], Player]) -> None:
        self.meant = meant
        self.follower = follower
        self.player: Player | None = None

    def act(self, observation: str) -> str:
        if self.player is not None:
            return self.player.act(observation)
        word = next(word for word in self.meant if word in observation)
        self.player = self.follower(self.meant[word])
        return f"{word} is {self.meant[word]} {self.player.act(observation)}"
