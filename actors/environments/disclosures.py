"""Find what a program tells only to a player who sends certain words. Nobody without these words learns it.

No text is interpreted here. The texts of a play are compared with the texts of other plays: of the same moves without
the words, of the same moves with random words in their place, and of the same moves on other instances.
"""

import dataclasses
import random
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import msgspec
import trio

from actors.environments.gifts import Acted, PlayerView, contains, leave_out, split_words
from actors.environments.tools.evidence import READ_CHARACTERS
from actors.text.conversation import Move
from actors.text.leaks import LEAST, normalise_visible

CONTROLS = 3
"""Number of plays with random words in place of the words."""
ELSEWHERE = 2
"""Number of other instances on which the moves are played."""
REST_PLAYS = 3
"""Number of plays with which the moves that are left must prove that they need no word. Luck may win one play."""
_WORD = re.compile(r"[^\W_]+")
_VALUE_WORD = re.compile(r'[^\W_]++(?!"\s*:)')
"""A word that is not the end of a key in JSON."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")

View: TypeAlias = Callable[[Sequence[Acted]], Awaitable[PlayerView[Acted]]]
"""Plays moves and returns the play as its player sees it."""
Sentence: TypeAlias = tuple[str, ...]
"""The words of a sentence, in lower case and without accents."""
SentenceForm: TypeAlias = frozenset[str]
"""The words of a sentence, with "#" for each number and "*" for each other short word."""


class _Told(NamedTuple):
    """A sentence that a player reads after the words."""

    sentence: Sentence
    turn: int
    """The number of moves before the sentence."""
    is_new: bool
    """True if it has a word of a later move that the player did not see before the words were sent."""


async def drop_words(
    own: PlayerView[Acted], words: Sequence[str], here: View[Acted], elsewhere: View[Acted], draw: random.Random
) -> list[Acted]:
    """Return the moves of a play without the words, and without all moves after something that only the words tell.

    If the later moves stayed, the words would seem needless. `here` plays moves on the instance of the play, and
    `elsewhere` on a new instance at each call. A sentence tells something if both conditions hold:

    * It is not ordinary (`_OrdinarySentences`). No other play on this instance has a sentence of its form, neither
      without the words nor with random words in their place. So a word that works like any other tells nothing, for
      example the first guess of a search.
    * Another instance lacks the sentence, or it is new (`_Told.is_new`).
    """
    moves, left = list(own.actions), leave_out(own.actions, words)
    spells = {turn: move for turn, move in enumerate(moves) if contains(move, words)}
    first, echo = min(spells, default=len(moves)), _collect_words(spells.values())
    ordinary = _OrdinarySentences()
    await trio.to_thread.run_sync(ordinary.add, own.observations[: first + 1], echo)
    told = await trio.to_thread.run_sync(_find_told, own, first, echo)
    others = [(left, echo)]
    for _ in range(CONTROLS):
        replaced = {turn: _replace_words(move, words, draw) for turn, move in spells.items()}
        if all(replaced[turn] != move for turn, move in spells.items()):
            control = [replaced.get(turn, move) for turn, move in enumerate(moves)]
            others.append((control, echo | _collect_words(replaced.values())))
    for other, its_echo in others:
        if told := [each for each in told if not ordinary.have(each.sentence, echo)]:
            await trio.to_thread.run_sync(ordinary.add, (await here(other)).observations, its_echo)
    told = [each for each in told if not ordinary.have(each.sentence, echo)]
    if not all(each.is_new for each in told):
        plays = [await elsewhere(moves) for _ in range(ELSEWHERE)]
        found = [set(_split_sentences(play.observations[first + 1 :])) for play in plays if len(play.actions) > first]
        told = [each for each in told if each.is_new or any(each.sentence not in sentences for sentences in found)]
    return leave_out(moves[: min((each.turn for each in told), default=len(moves))], words)


class _OrdinarySentences:
    """Sentences that a player reads without the words."""

    def __init__(self) -> None:
        self._by_form = defaultdict[SentenceForm, set[Sentence]](set)

    def add(self, texts: Iterable[str], echo: frozenset[str]) -> None:
        """Add the sentences of texts. The words in `echo` do not count: a program may repeat what it was sent."""
        for sentence in _split_sentences(texts):
            self._by_form[_read_form(sentence, echo)].add(_drop_echo(sentence, echo))

    def have(self, sentence: Sentence, echo: frozenset[str]) -> bool:
        """Return True if there is a sentence of this form.

        If all sentences of this form are the same, such as `Humming: 0`, a different one is not ordinary.
        """
        alike = self._by_form.get(_read_form(sentence, echo), ())
        return len(alike) > 1 or _drop_echo(sentence, echo) in alike


def _find_told(play: PlayerView[Acted], first: int, echo: frozenset[str]) -> list[_Told]:
    """Return the sentences that a player reads after the move of turn `first` and before the last move."""
    seen = echo.union(*_split_sentences(play.observations[: first + 1]))
    told = dict[Sentence, _Told]()
    for turn in range(first + 1, len(play.actions)):
        later = _collect_words(play.actions[turn:]) - seen
        for sentence in _split_sentences(play.observations[turn : turn + 1]):
            told.setdefault(sentence, _Told(sentence, turn, not later.isdisjoint(sentence)))
    return list(told.values())


def _drop_echo(sentence: Sentence, echo: frozenset[str]) -> Sentence:
    return tuple(word for word in sentence if word not in echo)


def _collect_words(moves: Iterable[Acted]) -> frozenset[str]:
    return frozenset(word for move in moves for word in split_words(move))


def _read_form(sentence: Sentence, echo: frozenset[str]) -> SentenceForm:
    """Return the form of a sentence without the echo."""
    kept = _drop_echo(sentence, echo)
    return frozenset("#" if word.isdecimal() else "*" if len(word) < LEAST else word for word in kept)


def _split_sentences(texts: Iterable[str]) -> Iterator[Sentence]:
    """Yield the words of each sentence of the texts."""
    for text in texts:
        for sentence in _SENTENCE_END.split(normalise_visible(text[:READ_CHARACTERS])):
            yield tuple(_WORD.findall(sentence))


def _replace_words(move: Acted, words: Sequence[str], draw: random.Random) -> Acted:
    """Return a move with other words in place of the words and of their parts.

    A game may take few letters and digits, so the other words are made of the letters and digits of the words.
    """
    signs = "".join(words)
    digits = [sign for sign in signs if sign.isdecimal()]
    letters = [sign for sign in signs if not sign.isdecimal()]

    def replace(found: re.Match[str]) -> str:
        token = normalise_visible(found[0])
        if not any(token in word for word in words):
            return found[0]
        return "".join(draw.choice(digits if sign.isdecimal() else letters) for sign in token)

    if isinstance(move, Move):
        calls = (
            msgspec.structs.replace(call, arguments=_VALUE_WORD.sub(replace, call.arguments)) for call in move.calls
        )
        return dataclasses.replace(move, action=_VALUE_WORD.sub(replace, move.action), calls=tuple(calls))
    return _VALUE_WORD.sub(replace, move)
