"""A family of environments: knobs, a program, a hint, and a skilled player."""

import random
import re
from collections.abc import Sequence
from typing import Protocol, TypeVar

from actors.nano.levels import CommonKnobs


class Player(Protocol):
    """Plays one episode: answers each observation with the agent's whole message."""

    def act(self, observation: str) -> str: ...


Settings = TypeVar("Settings", bound=CommonKnobs)
Part = TypeVar("Part", covariant=True)


class Family(Protocol[Settings, Part]):
    """A kind of environment. Its programs share a frame and differ in the family's part."""

    @property
    def name(self) -> str: ...

    @property
    def skills(self) -> tuple[str, ...]: ...

    @property
    def statement(self) -> re.Pattern[str]:
        """Return the pattern of the sentence that states the rule.

        Programs that print the rule show it in the first observation.
        """
        ...

    def knobs(self, rng: random.Random) -> Settings:
        """Draw the parameters of a program."""
        ...

    def body(self, knobs: Settings, words: Sequence[str]) -> Part:
        """Return the family's part of the program."""
        ...

    def hint(self, knobs: Settings) -> str:
        """Write one short line with the strategy and the known part of the rule, without the answer."""
        ...

    def player(self, knobs: Settings, informed: bool, rng: random.Random) -> Player:
        """Return a skilled player. If `informed`, it knows what a hint or the first observation says of the rule."""
        ...


def read_offered(observation: str) -> list[str]:
    """Return the actions that an observation names. Empty once the episode is over."""
    match = re.search(r"Actions: (.*)", observation)
    if match is None:
        return []
    span = re.fullmatch(r"(\d+)\.\.(\d+)", match[1])
    return match[1].split() if span is None else [str(n) for n in range(int(span[1]), int(span[2]) + 1)]


def write_message(action: str, thought: str = "") -> str:
    """Write the agent's message. The space in the box makes the action the same token as in an observation."""
    return f"{thought} \\boxed{{ {action}}}".lstrip()


def quote_words(words: Sequence[str]) -> str:
    """Return a Python list of strings, in double quotes."""
    return "[" + ", ".join(f'"{word}"' for word in words) + "]"
