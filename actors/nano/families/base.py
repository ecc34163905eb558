"""A family of environments: knobs in levels, a program, a hint, and a skilled player."""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Protocol, TypeVar

from actors.nano.levels import EVERY, PLAIN, Given, draw_by_level
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


class Player(Protocol):
    """Plays one episode: from each observation to the agent's whole message."""

    def act(self, observation: str) -> str: ...


Settings = TypeVar("Settings", bound=Given)
Part = TypeVar("Part", covariant=True)


class Family(Protocol[Settings, Part]):
    """A kind of environment; its programs are a frame with a part of its own."""

    @property
    def name(self) -> str: ...

    @property
    def skills(self) -> tuple[str, ...]: ...

    @property
    def statement(self) -> re.Pattern[str]:
        """The sentence that states the rule in the first observation of those programs that print it."""
        ...

    def knobs(self, rng: random.Random) -> Settings:
        """Draw the parameters of a program."""
        ...

    def body(self, knobs: Settings, words: Sequence[str]) -> Part:
        """The program's own lines."""
        ...

    def hint(self, knobs: Settings) -> str:
        """One short line that states the strategy and what is known of the rule, not the answer."""
        ...

    def player(self, knobs: Settings, informed: bool, rng: random.Random) -> Player:
        """A skilled player; `informed` of what a hint or the first observation says of the rule."""
        ...


class Game:
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

    def body(self, knobs: Knobs, words: Sequence[str]) -> Body:
        """See Family."""
        raise NotImplementedError

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

    def follower(self, knobs: Knobs, rule: str, rng: random.Random) -> Player:
        """A skilled player who takes the rule to be this one."""
        raise NotImplementedError

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


def offered(observation: str) -> list[str]:
    """The actions an observation names; none once the episode is over."""
    match = re.search(r"Actions: (.*)", observation)
    if match is None:
        return []
    span = re.fullmatch(r"(\d+)\.\.(\d+)", match[1])
    return match[1].split() if span is None else [str(n) for n in range(int(span[1]), int(span[2]) + 1)]


def say(action: str, thought: str = "") -> str:
    """The agent's message. The space in the box makes the action the same token there as in an observation."""
    return f"{thought} \\boxed{{ {action}}}".lstrip()


def quoted(words: Sequence[str]) -> str:
    """A Python list of strings, in double quotes."""
    return "[" + ", ".join(f'"{word}"' for word in words) + "]"
