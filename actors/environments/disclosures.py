"""Find what a program tells only to a player who sends certain words. Nobody without these words learns it.

No text is interpreted here. The texts of a play are compared with the texts of other plays: of the same moves without
the words, of the same moves with random words in their place, and of the same moves on other instances.
"""

import dataclasses
import random
import re
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from string import ascii_lowercase
from typing import Generic, NamedTuple, TypeAlias

import msgspec
import trio

from actors.environments.gifts import ANY_WORD, Acted, PlayerView, contain, find_words, leave_out
from actors.environments.tools.evidence import READ_CHARACTERS
from actors.text.conversation import Move
from actors.text.leaks import LEAST, normalise_visible

CONTROLS = 3
"""Number of plays with random words in place of the words."""
ELSEWHERE = 2
"""Number of other instances on which the moves are played."""
REST_PLAYS = 3
"""Number of plays with which the moves that are left must prove that they need no word. Luck may win one play."""
UNAIDED_CHARACTERS = 1 << 20
"""At most this many characters of plays without the hint are read."""
MOST_FORMS = 500
"""At most this many sentences are compared with at most this many forms, since a program may write many sentences."""
_VALUE_WORD = re.compile(r'[^\W_]++(?!"\s*:)')
"""A word that is not the end of a key in JSON."""
_WORD_OR_SIGN = re.compile(r"[^\W_]++|[^\w\s]|_")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")

View: TypeAlias = Callable[[Sequence[Acted]], Awaitable[PlayerView[Acted]]]
"""Plays moves and returns the play as its player sees it."""
Sentence: TypeAlias = tuple[str, ...]
"""The words of a sentence, in lower case and without accents."""
SentenceForm: TypeAlias = frozenset[str]
"""The words of a sentence, with "#" for each number and "*" for each other short word."""
Whole: TypeAlias = str
"""A whole observation, as `_TextReader.read_whole` returns it."""


class _Told(NamedTuple):
    """Something that a player reads after the words."""

    what: Sentence | Whole
    turn: int
    """The number of moves before it."""
    names_move: bool
    """True if it is a sentence with a word of a later move."""


class Rest(NamedTuple, Generic[Acted]):
    """The moves of a play without certain words, and without all moves after something that the words tell."""

    without: Sequence[Acted]
    """The moves that do not contain the words."""
    replaced: Sequence[Sequence[Acted]]
    """All moves, with random words in place of the words: up to CONTROLS times."""


async def find_rest(
    own: PlayerView[Acted],
    words: Sequence[str],
    here: View[Acted],
    elsewhere: View[Acted],
    unaided: Iterable[PlayerView[Acted]],
    draw: random.Random,
) -> Rest[Acted]:
    """Return what is left of a play without the words, and without all moves after something that only the words tell.

    If the later moves stayed, the words would seem needless. `here` plays moves on the instance of the play, and
    `elsewhere` on a new instance at each call. `unaided` are plays of players that know no hint. A sentence tells
    something if both conditions hold:

    * It is not ordinary (`_Ordinary`). No player reads a sentence of its form before the words are sent, without the
      words, with random words in their place, or in `unaided`. So a word that works like any other tells nothing, for
      example the first guess of a search.
    * Another instance lacks the sentence at this turn, or the sentence names a later move.

    An observation as a whole (`_TextReader.read_whole`) tells something if no player reads the same in these plays, and
    another instance lacks it at this turn. So a program cannot tell something by choosing among known sentences.
    """
    moves = list(own.actions)
    spells = [move for move in moves if contain([move], words)]
    if not spells:
        return Rest(moves, [])
    first, echo, sent = moves.index(spells[0]), find_words(spells), find_words(moves)
    before = own.observations[: first + 1]
    reader = await trio.to_thread.run_sync(_TextReader.make, before, any(map(_has_calls, spells)))
    ordinary = _Ordinary(reader)
    await trio.to_thread.run_sync(ordinary.add, before, echo)
    without_words = (play for play in unaided if not contain(play.actions, words))
    for play in _take_readable(without_words):
        await trio.to_thread.run_sync(ordinary.add, play.observations, frozenset())
    others = _make_others(own, words, first, draw)
    for other in others:
        play = await here(other)
        await trio.to_thread.run_sync(ordinary.add, play.observations, echo | (find_words(other) - sent))
    told = await trio.to_thread.run_sync(reader.find_told, own, first, echo)
    told = await trio.to_thread.run_sync(ordinary.drop, told, echo)
    if not all(each.names_move for each in told):
        plays = [await elsewhere(moves) for _ in range(ELSEWHERE)]
        shown = [await trio.to_thread.run_sync(reader.read_turns, play.observations, echo) for play in plays]
        told = [each for each in told if each.names_move or not all(_has_at(turns, each) for turns in shown)]
    end = min((each.turn for each in told), default=len(moves))
    return Rest(leave_out(moves[:end], words), [each[:end] for each in others[1:]])


class _TextReader(NamedTuple):
    """Reads sentences, and observations as a whole."""

    known: frozenset[Sentence]
    """The sentences that the player read before the words."""
    has_calls: bool
    """True if the words are in calls of tools."""

    @staticmethod
    def make(before: Iterable[str], has_calls: bool) -> "_TextReader":
        """Make a reader. `before` are the observations before the words."""
        return _TextReader(frozenset(_split_sentences(before)), has_calls)

    def read_whole(self, text: str, echo: frozenset[str]) -> Whole:
        """Return the words and signs of a text without the echo, or in a game its known sentences.

        A tool that takes a word which nothing states should answer as to any other word, so all of its text counts. A
        game may answer each word in another way, such as a guess. So only the known sentences count there: the game may
        choose, order or repeat them.
        """
        if not self.has_calls:
            return "\n".join(" ".join(each) for each in _split_sentences([text]) if each in self.known)
        found = _WORD_OR_SIGN.findall(text[:READ_CHARACTERS])
        return " ".join(word for word in found if normalise_visible(word) not in echo)

    def find_told(self, play: PlayerView[Acted], first: int, echo: frozenset[str]) -> list[_Told]:
        """Return all that a player reads after the move of turn `first` and before the last move."""
        told = dict[_Told, None]()
        for turn in range(first + 1, len(play.actions)):
            later = find_words(play.actions[turn:]) - echo
            told[_Told(self.read_whole(play.observations[turn], echo), turn, names_move=False)] = None
            for sentence in _split_sentences([play.observations[turn]]):
                told[_Told(sentence, turn, not later.isdisjoint(sentence))] = None
        return list(told)

    def read_turns(self, texts: Iterable[str], echo: frozenset[str]) -> list[set[Sentence | Whole]]:
        """Return the sentences and the whole of each observation."""
        return [{*_split_sentences([text]), self.read_whole(text, echo)} for text in texts]


class _Ordinary:
    """The sentences and whole observations that a player reads without the words."""

    def __init__(self, reader: _TextReader) -> None:
        self._reader = reader
        self._by_form = defaultdict[SentenceForm, Counter[Sentence]](Counter)
        self._wholes = {""}

    def add(self, texts: Iterable[str], echo: frozenset[str]) -> None:
        """Add the observations of a play. The words in `echo` do not count: a program may repeat what it was sent."""
        for text in texts:
            self._wholes.add(self._reader.read_whole(text, echo))
            for sentence in _split_sentences([text]):
                self._by_form[_read_form(sentence, echo)][_drop_echo(sentence, echo)] += 1

    def drop(self, told: Iterable[_Told], echo: frozenset[str]) -> list[_Told]:
        """Return what is not ordinary. A sentence is ordinary if there is one of its form.

        A few sentences are also ordinary if the words of their form come from similar ones (`_is_mixed`).
        """
        left = [each for each in told if not self._have(each.what, echo)]
        if len(left) > MOST_FORMS:
            return left
        return [each for each in left if isinstance(each.what, str) or not self._is_mixed(_read_form(each.what, echo))]

    def _have(self, what: Sentence | Whole, echo: frozenset[str]) -> bool:
        """Return True if there is this whole observation, or a sentence of this form.

        A different sentence does not count if only one was read, more than once: `Humming: 7` after `Humming: 0`.
        """
        if isinstance(what, str):
            return what in self._wholes
        alike = self._by_form.get(_read_form(what, echo), Counter[Sentence]())
        return len(alike) > 1 or alike.total() == 1 or _drop_echo(what, echo) in alike

    def _is_mixed(self, form: SentenceForm) -> bool:
        """Return True if similar forms together have all of these words: `green grey yellow` is mixed from `green grey`
        and `grey yellow`. Two forms are similar if they share half of the words of both."""
        others = (other for other in islice(self._by_form, MOST_FORMS) if other != form)
        similar = (other for other in others if 2 * len(form & other) >= len(form | other))
        return form <= frozenset().union(*similar)


def _take_readable(plays: Iterable[PlayerView[Acted]]) -> Iterator[PlayerView[Acted]]:
    """Yield the first plays, up to UNAIDED_CHARACTERS together. A program may write long observations."""
    left = UNAIDED_CHARACTERS
    for play in plays:
        left -= sum(min(len(text), READ_CHARACTERS) for text in play.observations)
        if left < 0:
            return
        yield play


def _has_calls(move: str | Move) -> bool:
    return isinstance(move, Move) and bool(move.calls)


def _has_at(turns: Sequence[set[Sentence | Whole]], told: _Told) -> bool:
    """Return True if a player reads the same after as many moves in another play."""
    return told.turn < len(turns) and told.what in turns[told.turn]


def _drop_echo(sentence: Sentence, echo: frozenset[str]) -> Sentence:
    return tuple(word for word in sentence if word not in echo)


def _read_form(sentence: Sentence, echo: frozenset[str]) -> SentenceForm:
    """Return the form of a sentence without the echo."""
    kept = _drop_echo(sentence, echo)
    return frozenset("#" if word.isdecimal() else "*" if len(word) < LEAST else word for word in kept)


def _split_sentences(texts: Iterable[str]) -> Iterator[Sentence]:
    """Yield the words of each sentence of the texts."""
    for text in texts:
        for sentence in _SENTENCE_END.split(normalise_visible(text[:READ_CHARACTERS])):
            if words := ANY_WORD.findall(sentence):
                yield tuple(words)


def _make_others(play: PlayerView[Acted], words: Sequence[str], first: int, draw: random.Random) -> list[list[Acted]]:
    """Return the moves without the words, then all moves with random words in their place, CONTROLS times.

    A control is left out if a word cannot be replaced, such as a word of signs. `first` is the turn of the first
    move with a word.
    """
    seen = frozenset(chain.from_iterable(_split_sentences(play.observations[: first + 1])))
    signs = _Signs.collect(find_words(play.actions))
    found = [leave_out(play.actions, words)]
    for _ in range(CONTROLS):
        control = [_replace_words(move, words, seen, signs, draw) for move in play.actions]
        if not contain(control, words):
            found.append(control)
    return found


class _Signs(NamedTuple):
    """Digits, and letters of short words. A game may take few of them, such as the columns and rows of a grid."""

    digits: str
    letters: str

    @staticmethod
    def collect(words: Iterable[str]) -> "_Signs":
        """Collect the signs of the words of a play."""
        signs = [(sign, len(word)) for word in sorted(words) for sign in word]
        digits = {sign for sign, _ in signs if sign.isdecimal()}
        letters = {sign for sign, length in signs if length < LEAST and not sign.isdecimal()}
        return _Signs("".join(sorted(digits)), "".join(sorted(letters)))

    def draw(self, word: str, draw: random.Random) -> str:
        """Return a random word of the same kind and length. If possible, a number does not begin with 0."""
        letters = self.letters if len(word) < LEAST else ascii_lowercase
        first = self.digits.replace("0", "") or self.digits
        return "".join(
            draw.choice((self.digits if place else first) if sign.isdecimal() else letters)
            for place, sign in enumerate(word)
        )


def _replace_words(
    move: Acted, words: Sequence[str], seen: frozenset[str], signs: _Signs, draw: random.Random
) -> Acted:
    """Return a move with random words in place of the words and of their parts.

    Parts that the player has seen stay, unless it has seen them all.
    """
    if not contain([move], words):
        return move
    parts = {part for part in find_words([move]) if any(part in word for word in words)}
    parts = parts - seen or parts

    def replace(found: re.Match[str]) -> str:
        part = normalise_visible(found[0])
        return signs.draw(part, draw) if part in parts else found[0]

    if isinstance(move, Move):
        calls = (
            msgspec.structs.replace(call, arguments=_VALUE_WORD.sub(replace, call.arguments)) for call in move.calls
        )
        return dataclasses.replace(move, action=_VALUE_WORD.sub(replace, move.action), calls=tuple(calls))
    return _VALUE_WORD.sub(replace, move)
