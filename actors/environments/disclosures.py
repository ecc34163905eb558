"""Find what a program tells only to a player who sends certain words. Nobody without these words learns it.

No text is interpreted here. The texts of a play are compared with the texts of other plays: of the same moves without
the words, of the same moves with random words in their place, and of the same moves on other instances.
"""

import dataclasses
import random
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import starmap
from string import ascii_lowercase
from typing import Generic, NamedTuple, TypeAlias

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


class Rest(NamedTuple, Generic[Acted]):
    """What is left of the moves of a play without certain words, and without all moves after something they tell."""

    without: Sequence[Acted]
    """The moves that do not contain the words."""
    replaced: Sequence[Sequence[Acted]]
    """All moves, with random words in place of the words: up to CONTROLS times."""


async def find_rest(
    own: PlayerView[Acted], words: Sequence[str], here: View[Acted], elsewhere: View[Acted], draw: random.Random
) -> Rest[Acted]:
    """Return what is left of a play without the words, and without all moves after something that only the words tell.

    If the later moves stayed, the words would seem needless. `here` plays moves on the instance of the play, and
    `elsewhere` on a new instance at each call. A sentence tells something if both conditions hold:

    * It is not ordinary (`_OrdinarySentences`). No other play on this instance has a sentence of its form, neither
      without the words nor with random words in their place. So a word that works like any other tells nothing, for
      example the first guess of a search.
    * Another instance lacks the sentence, or it is new (`_Told.is_new`).
    """
    moves = list(own.actions)
    spells = [move for move in moves if contains(move, words)]
    if not spells:
        return Rest(moves, [])
    first, echo, sent = moves.index(spells[0]), _collect_words(spells), _collect_words(moves)
    ordinary = _OrdinarySentences()
    await trio.to_thread.run_sync(ordinary.add, own.observations[: first + 1], echo)
    told = await trio.to_thread.run_sync(_find_told, own, first, echo)
    others = _make_others(moves, words, draw)
    for other in others:
        told = [each for each in told if not ordinary.have(each.sentence, echo)]
        if told:
            play = await here(other)
            await trio.to_thread.run_sync(ordinary.add, play.observations, echo | (_collect_words(other) - sent))
    told = [each for each in told if not ordinary.have(each.sentence, echo)]
    if not all(each.is_new for each in told):
        found = [_collect_sentences(await elsewhere(moves), first) for _ in range(ELSEWHERE)]
        told = [each for each in told if each.is_new or any(each.sentence not in some for some in found if some)]
    end = min((each.turn for each in told), default=len(moves))
    return Rest(leave_out(moves[:end], words), [each[:end] for each in others[1:]])


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


def _collect_sentences(play: PlayerView[Acted], first: int) -> set[Sentence]:
    """Return the sentences after the move of turn `first`. Returns an empty set if the play ends before this move."""
    return set(_split_sentences(play.observations[first + 1 :])) if len(play.actions) > first else set()


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


def _make_others(moves: Sequence[Acted], words: Sequence[str], draw: random.Random) -> list[list[Acted]]:
    """Return the moves without the words, then all moves with random words in their place, CONTROLS times.

    Moves in which a word cannot be replaced, such as a word of signs, are left out.
    """
    digits = sorted({sign for word in _collect_words(moves) for sign in word if sign.isdecimal()})
    found = [leave_out(moves, words)]
    for _ in range(CONTROLS):
        control = [_replace_words(move, words, digits, draw) for move in moves]
        if leave_out(control, words) == control:
            found.append(control)
    return found


def _replace_words(move: Acted, words: Sequence[str], digits: Sequence[str], draw: random.Random) -> Acted:
    """Return a move with random letters and digits in place of the words and of their parts.

    A number gets some of `digits`, since a game may take few digits. If possible, it does not begin with 0.
    """
    if not contains(move, words):
        return move

    def draw_sign(place: int, sign: str) -> str:
        if not sign.isdecimal():
            return draw.choice(ascii_lowercase)
        return draw.choice([digit for digit in digits if place or digit != "0"] or digits)

    def replace(found: re.Match[str]) -> str:
        token = normalise_visible(found[0])
        if not any(token in word for word in words):
            return found[0]
        return "".join(starmap(draw_sign, enumerate(token)))

    if isinstance(move, Move):
        calls = (
            msgspec.structs.replace(call, arguments=_VALUE_WORD.sub(replace, call.arguments)) for call in move.calls
        )
        return dataclasses.replace(move, action=_VALUE_WORD.sub(replace, move.action), calls=tuple(calls))
    return _VALUE_WORD.sub(replace, move)
