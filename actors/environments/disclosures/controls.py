"""Make other moves from the moves of a play: without certain words, or with other words in their place."""

import random
from collections.abc import Iterable, Sequence
from itertools import chain, cycle, islice
from string import ascii_lowercase
from typing import Generic, NamedTuple

from actors.environments.disclosures.sentences import split_sentences
from actors.environments.disclosures.substitution import Substitution
from actors.environments.gifts import Acted, PlayerView, contain, find_words, leave_out
from actors.text.leaks import LEAST

CONTROLS = 3
"""Number of controls with other words in place of the words."""


class Control(NamedTuple, Generic[Acted]):
    """Other moves, made from the moves of a play."""

    moves: Sequence[Acted]
    echo: frozenset[str]
    """The words that are sent only here or only in the play. A program may repeat what it was sent."""
    turns: Sequence[int]
    """For each observation of the play, the number of moves before the same observation here. It is -1 if the move
    before the observation is left out here."""


class ControlSet(NamedTuple, Generic[Acted]):
    """The controls of a play."""

    spells: Sequence[Acted]
    """The moves of the play that contain the words."""
    first: int
    """The turn of the first of them."""
    echo: frozenset[str]
    """The parts of the words that are replaced."""
    all: Sequence[Control[Acted]]
    """First the moves without the words, then all moves with other words in their place: up to CONTROLS times."""

    @property
    def replaced(self) -> Sequence[Control[Acted]]:
        """The controls with other words."""
        return self.all[1:]


def make_controls(
    play: PlayerView[Acted], words: Sequence[str], unaided: Sequence[Sequence[Acted]], draw: random.Random
) -> ControlSet[Acted]:
    """Make the controls of a play that sends the words.

    `unaided` are the moves of plays without the hint. If such a player made the same move with other words, these words
    are taken. So a program that answers them as it answers the words tells players without the hint, too. Else the
    other words are drawn (`_WordSource`). A control is left out if a word cannot be replaced, such as a word of signs.
    """
    spells = [move for move in play.actions if contain([move], words)]
    first = play.actions.index(spells[0])
    before = _collect_words(play.observations[: first + 1])
    echo = frozenset(chain.from_iterable(_find_parts(spell, words, before) for spell in spells))
    shown = before - _collect_words(play.observations[first + 1 :])
    sent = find_words(play.actions)
    source = _WordSource.collect(sent, shown)
    drawn = {word: source.draw(word, draw) for word in sorted(echo)}
    found = [Control(leave_out(play.actions, words), echo, _count_kept(play.actions, words))]
    for number in range(CONTROLS):
        others = dict[str, str]()
        for word, each in drawn.items():
            left = [other for other in each if other not in others.values()] or each
            others[word] = left[number % len(left)]
        moves = list(map(Substitution(words, others, unaided, number).replace, play.actions))
        if not contain(moves, words):
            found.append(Control(moves, (find_words(moves) ^ sent) | echo, range(len(moves) + 1)))
    return ControlSet(spells, first, echo, found)


def _count_kept(moves: Iterable[Acted], words: Sequence[str]) -> list[int]:
    """Return `Control.turns` of the moves without the words."""
    turns, count = [0], 0
    for move in moves:
        kept = bool(leave_out([move], words))
        count += kept
        turns.append(count if kept else -1)
    return turns


class _WordSource(NamedTuple):
    """Draws other words. A game may take few digits and short words, such as the columns and rows of a grid."""

    digits: str
    letters: str
    """The letters of short words."""
    shown: Sequence[str]
    """Long words that the player has seen, without digits."""

    @staticmethod
    def collect(sent: Iterable[str], shown: Iterable[str]) -> "_WordSource":
        """Collect the signs of the words that a play sends."""
        signs = [(sign, len(word)) for word in sorted(sent) for sign in word]
        digits = {sign for sign, _ in signs if sign.isdecimal()}
        letters = {sign for sign, length in signs if length < LEAST and not sign.isdecimal()}
        long = [word for word in sorted(shown) if len(word) >= LEAST and word.isalpha()]
        return _WordSource("".join(sorted(digits)), "".join(sorted(letters)), long)

    def draw(self, word: str, draw: random.Random) -> list[str]:
        """Return CONTROLS other words of the same kind.

        For a long word they are the words of the most similar length that the player has seen, or else random letters.
        Other words have the same length. If possible, a number does not begin with 0.
        """
        if len(word) >= LEAST and word.isalpha() and self.shown:
            mixed = sorted(draw.sample(self.shown, len(self.shown)), key=lambda other: abs(len(other) - len(word)))
            return [*islice(cycle(mixed), CONTROLS)]
        letters = self.letters if len(word) < LEAST else ascii_lowercase
        first = self.digits.replace("0", "") or self.digits
        signs = [(self.digits if place else first) if sign.isdecimal() else letters for place, sign in enumerate(word)]
        return ["".join(map(draw.choice, signs)) for _ in range(CONTROLS)]


def _collect_words(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(chain.from_iterable(split_sentences(texts)))


def _find_parts(spell: Acted, words: Sequence[str], before: frozenset[str]) -> frozenset[str]:
    """Return the parts of the words in a move. Parts that the player has seen stay, unless it has seen them all."""
    parts = frozenset(part for part in find_words([spell]) if any(part in word for word in words))
    return parts - before or parts
