"""The pure half of admission: what probes do in a program they do not know, and what their transcripts prove."""

import random
import re
from collections.abc import Sequence

import msgspec

from spade.protocol import Observed
from spade.returns import episode_return, won

_LISTED = re.compile(r"Actions: *(.+)")
_RANGE = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})")
_QUOTED = re.compile(r"'([^'\n]{1,40})'|\"([^\"\n]{1,40})\"|`([^`\n]{1,40})`|\\boxed\{([^{}\n]{1,40})\}")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_GUESSES = ("0", "1", "2", "yes", "no")
_OFFERS = 1_000

NONSENSE = ("", "?!", "none of these", "☃", "{}[]()\\n%s", "x" * 1_000)
"""What an agent may send in bad moments; nothing of it is ever right."""

NUMBERS = ("-1", "0.5", "9" * 40)
"""Numbers that are seldom meant; by accident one may be right."""


class Transcript(msgspec.Struct, frozen=True):
    """One play: the instance seed, the actions, and the answers to reset and then to each action."""

    seed: int
    actions: tuple[str, ...]
    answers: tuple[Observed, ...]

    @property
    def outcome(self) -> tuple[tuple[float, bool], ...]:
        """What was paid at each turn, and whether it was the end; the words left out."""
        return tuple((answer.reward, answer.terminated) for answer in self.answers)

    def won(self, win_return: float) -> bool:
        """The episode's return is a win."""
        last = self.answers[-1]
        return won(episode_return([last.reward], last.terminated), win_return)


def offered(observation: str) -> Sequence[str]:
    """What an observation offers: its last `Actions: a b c` or `Actions: 1..20`, else its quotes, else its numbers."""
    listed = _LISTED.findall(observation)
    if listed:
        text = listed[-1].strip()
        span = _RANGE.fullmatch(text.rstrip("."))
        if span is not None:
            low, high = int(span[1]), int(span[2])
            return [str(number) for number in range(low, min(high, low + _OFFERS - 1) + 1)] or _GUESSES
        words = text.split(",") if "," in text else text.split()
        return [word for word in (word.strip(" .;'\"`") for word in words) if word] or _GUESSES
    quoted = [next(filter(None, groups)) for groups in _QUOTED.findall(observation)]
    return quoted or _NUMBER.findall(observation) or _GUESSES


def choose(observation: str, rng: random.Random) -> str:
    """Any action the observation offers."""
    return rng.choice(offered(observation))


def indifferent(transcripts: Sequence[Transcript], win_return: float) -> str:
    """Why nothing depends on the actions, "" if something does.

    Plays of one seed are compared. Rewards that differ prove that actions matter. Where they never do, a win was luck;
    and without any win the words must differ at least.
    """
    by_seed: dict[int, list[Transcript]] = {}
    for transcript in transcripts:
        by_seed.setdefault(transcript.seed, []).append(transcript)
    if any(len({transcript.outcome for transcript in plays}) > 1 for plays in by_seed.values()):
        return ""
    if all(len(set(plays)) == 1 for plays in ([t.answers for t in plays] for plays in by_seed.values())):
        return "whatever is done, the same happens"
    if any(transcript.won(win_return) for transcript in transcripts):
        return "winning depends on the seed alone, not on the actions"
    return ""


def difference(first: Observed, second: Observed) -> str:
    """How two answers to the same action under the same seed differ, "" if they do not."""
    if first == second:
        return ""
    if first.observation != second.observation:
        return f"the observation was {first.observation[:80]!r}, then {second.observation[:80]!r}"
    return (
        f"reward, terminated, truncated were {first.reward:g}, {first.terminated}, {first.truncated}, "
        f"then {second.reward:g}, {second.terminated}, {second.truncated}"
    )
