"""A family of environments: knobs, a program, a hint, and a skilled player."""

import random
import re
from collections.abc import Sequence
from typing import Protocol, TypeVar

from actors.nano.levels import Given


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
