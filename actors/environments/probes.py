"""Probe an unknown program and draw conclusions from the transcripts: the pure half of admission."""

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

import msgspec

from spade.protocol import Observed
from spade.returns import compute_episode_return, is_won
from spade.text import format_beside

NOTHING = "none of these"
NONSENSE = ("", "?!", NOTHING, "☃", "{}[]()\\n%s", "x" * 1_000, f"\\boxed{{{NOTHING}}}")
"""Actions that a confused agent may send. They are always wrong."""

NUMBERS = ("-1", "0.5", "9" * 40)
"""Numbers that are seldom right."""

_QUOTED = 80  # characters of each text that a difference quotes

Action = TypeVar("Action")


class Transcript(msgspec.Struct, Generic[Action], frozen=True):
    """The record of one play: its actions and the program's answers."""

    seed: int
    """The instance seed."""
    actions: tuple[Action, ...]
    """The actions, in order."""
    answers: tuple[Observed, ...]
    """The answer to reset, then the answer to each action."""

    @property
    def outcome(self) -> tuple[tuple[float, bool], ...]:
        """The reward of each answer, and True if the answer ended the play."""
        return tuple((answer.reward, answer.terminated) for answer in self.answers)

    def won(self, win_return: float) -> bool:
        """Return True if the episode's return is a win."""
        last = self.answers[-1]
        return is_won(compute_episode_return([last.reward], last.terminated), win_return)


def has_other_rewards(transcripts: Sequence[Transcript[Action]]) -> bool:
    """Return True if the actions matter: two plays of one instance differ in a reward or in their end."""
    return any(len({transcript.outcome for transcript in plays}) > 1 for plays in _group_by_seed(transcripts))


def is_unchanging(transcripts: Sequence[Transcript[Action]]) -> bool:
    """Return True if all plays of each instance have the same answers, whatever their actions were."""
    return all(len({transcript.answers for transcript in plays}) == 1 for plays in _group_by_seed(transcripts))


def _group_by_seed(transcripts: Sequence[Transcript[Action]]) -> Iterable[list[Transcript[Action]]]:
    grouped: dict[int, list[Transcript[Action]]] = {}
    for transcript in transcripts:
        grouped.setdefault(transcript.seed, []).append(transcript)
    return grouped.values()


def has_heeded(first: Transcript[str], second: Transcript[str]) -> bool:
    """Return True if two plays of one seed differ by more than an observation that repeats the action."""
    if first.outcome != second.outcome:
        return True
    turns = zip(first.actions, second.actions, first.answers[1:], second.answers[1:], strict=True)
    return any(
        _remove_texts(mine.observation, {action, other}) != _remove_texts(theirs.observation, {action, other})
        for action, other, mine, theirs in turns
    )


def _remove_texts(observation: str, actions: set[str]) -> str:
    for action in sorted(actions, key=len, reverse=True):
        observation = observation.replace(action, "")
    return observation


def describe_difference(first: Observed, second: Observed) -> str:
    """Describe how two answers to the same action under the same seed differ. Returns "" if they are equal."""
    if first == second:
        return ""
    if first.observation != second.observation:
        return f"the observation was {_quote_difference(first.observation, second.observation)}"
    for mine, theirs in zip(first.results, second.results, strict=False):
        if mine != theirs:
            return f"a result was {_quote_difference(mine.text, theirs.text)}"
    if first.tools != second.tools:
        return f"the tools were {_quote_difference(first.tools, second.tools)}"
    if first.done != second.done:
        return f"{first.done} instructions were done, then {second.done}"
    reward = f"{first.reward:g}" if first.reward == second.reward else format_beside(first.reward, second.reward)
    return (
        f"reward, terminated, truncated were {reward}, {first.terminated}, {first.truncated}, "
        f"then {second.reward:g}, {second.terminated}, {second.truncated}"
    )


def _quote_difference(one: str, other: str) -> str:
    """Quote two different texts from their first difference on."""
    pairs = enumerate(zip(one, other, strict=False))
    same = next((place for place, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))
    place = f" (from character {same + 1} on)" if same else ""
    return f"{one[same : same + _QUOTED]!r}, then {other[same : same + _QUOTED]!r}{place}"
