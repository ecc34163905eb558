"""Compare what a player reads after certain words with what it reads in the controls, and on other instances."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Generic, NamedTuple, TypeAlias

from actors.environments.disclosures.controls import Control, ControlSet
from actors.environments.disclosures.sentences import OrdinarySentences, Sentence, split_sentences
from actors.environments.gifts import ANY_WORD, Acted, PlayerView, find_words
from actors.environments.tools.evidence import READ_CHARACTERS
from actors.text.conversation import Move
from actors.text.leaks import normalise_visible

UNAIDED_CHARACTERS = 1 << 20
"""At most this many characters of plays without the hint are read."""
_ECHO, _ECHOES = "\0", re.compile(r"\0(?:[\s_-]*\0)+")
"""A mark in place of echoed words. Several such words count as one, since other players send longer texts."""

Whole: TypeAlias = str
"""A whole observation, as `Comparison.read_whole` returns it."""


class Told(NamedTuple):
    """Something that a player reads after the words, and that may tell something."""

    what: Sentence | Whole
    turn: int
    """The number of moves before it."""
    names_move: bool
    """True if it is a sentence with a word of a later move."""


class Comparison(Generic[Acted]):
    """The comparison of a play with its controls. `plays` are the plays of all controls."""

    def __init__(self, own: PlayerView[Acted], controls: ControlSet[Acted], plays: Sequence[PlayerView[Acted]]) -> None:
        self._own: PlayerView[Acted] = own
        self._controls: ControlSet[Acted] = controls
        self._plays: list[tuple[Control[Acted], PlayerView[Acted]]] = []
        for control, play in zip(controls.all, plays, strict=True):
            if all(control.moves != other.moves for other, _ in self._plays):
                self._plays.append((control, play))
        self._sentences = [list(split_sentences([text])) for text in own.observations]
        self._before = own.observations[: controls.first + 1]
        self._turns = range(controls.first + 1, len(own.actions))  # no move follows the last observation
        self._known = frozenset(chain.from_iterable(self._sentences[: controls.first + 1]))
        self._has_calls = any(map(_has_calls, controls.spells))

    def find_told(self, unaided: Iterable[PlayerView[Acted]]) -> list[Told]:
        """Return all sentences that are not ordinary, and all whole observations that are odd.

        `unaided` are plays of players that know no hint.
        """
        known: list[tuple[Sequence[str], frozenset[str]]] = [(self._before, frozenset())]
        known += [(play.observations, frozenset[str]()) for play in _take_readable(unaided)]
        known += [(play.observations, control.echo) for control, play in self._plays]
        ordinary = OrdinarySentences()
        for texts, echo in known:
            ordinary.add(texts, echo)
        others = ordinary.find_others(chain(*(self._sentences[turn] for turn in self._turns)), self._controls.echo)
        spelled, told = find_words(self._controls.spells), list[Told]()
        for turn in self._turns:
            later, varied = find_words(self._own.actions[turn:]) - spelled, self._find_varied(turn)
            left = (each for each in self._sentences[turn] if each in others and each not in varied)
            told += [Told(sentence, turn, not later.isdisjoint(sentence)) for sentence in left]
        seen = {""}
        if not self._has_calls:  # a tool's answers are compared with the controls alone
            seen.update(self.read_whole(text, echo) for texts, echo in known for text in texts)
        return told + list(self._find_odd_wholes(seen))

    def read_whole(self, text: str, echo: frozenset[str]) -> Whole:
        """Return a text without the echo, or in a game its known sentences.

        A tool that takes a word which nothing states should answer as to any other word, so all of its text counts. A
        game may answer each word in another way, such as a guess. So only the sentences count there that the player
        read before the words: the game may choose, order or repeat them.
        """
        if not self._has_calls:
            return "\n".join(" ".join(each) for each in split_sentences([text]) if each in self._known)
        marked = ANY_WORD.sub(
            lambda word: _ECHO if normalise_visible(word[0]) in echo else word[0], text[:READ_CHARACTERS]
        )
        return _ECHOES.sub(_ECHO, marked)

    def _find_varied(self, turn: int) -> set[Sentence]:
        """Return the sentences of a game that differ from the controls only where all controls differ from each other.

        So the program answers every word in its own way: `The machine prints ddd`.
        """
        answers = [] if self._has_calls else self._find_answers(turn, self._plays[1:])
        if len(answers) < 2:
            return set()
        others = (split_sentences([text]) for text, _ in answers)
        return {own for own, *each in zip(self._sentences[turn], *others, strict=False) if _varies(own, each)}

    def _find_odd_wholes(self, seen: set[Whole]) -> Iterator[Told]:
        """Yield the whole observations that are odd.

        A tool's answer is odd if it differs from the answers to the same move in all controls. In a game, known
        sentences are odd if they are not in `seen`, unless the controls with other words differ here as well.
        """
        for turn in self._turns:
            text = self._own.observations[turn]
            if self._has_calls:
                answers = self._find_answers(turn, self._plays)
                odd = all(self.read_whole(text, echo) != self.read_whole(other, echo) for other, echo in answers)
            else:
                answers = self._find_answers(turn, self._plays[1:])
                differ = len({self.read_whole(other, echo) for other, echo in answers}) > 1
                odd = not differ and self.read_whole(text, frozenset()) not in seen
            if odd:
                yield Told(self.read_whole(text, self._controls.echo), turn, names_move=False)

    def _find_answers(
        self, turn: int, plays: Iterable[tuple[Control[Acted], PlayerView[Acted]]]
    ) -> list[tuple[str, frozenset[str]]]:
        """Return the observations of controls after the same move, each with its echo."""
        found = ((control.turns[turn], play.observations, control.echo) for control, play in plays)
        return [(texts[at], echo) for at, texts, echo in found if 0 <= at < len(texts)]

    def keep_telling(self, told: Iterable[Told], others: Iterable[PlayerView[Acted]]) -> list[Told]:
        """Return what has a word of a later move, and what tells something about the instance.

        `others` are plays of the same moves on other instances. Something tells nothing about the instance if all of
        them show it at the same turn.
        """
        shown = list(map(self._read_turns, others))
        return [
            each
            for each in told
            if each.names_move or not all(each.what in turns.get(each.turn, ()) for turns in shown)
        ]

    def _read_turns(self, other: PlayerView[Acted]) -> dict[int, set[Sentence | Whole]]:
        """Return what another instance shows at each turn of the same moves, before a move that carries the instance.

        A move carries the instance if it has a word that its own instance states and the other one does not, such as a
        name in the first observation. Then the program may answer as on the play's own instance.
        """
        shown, stated, there = dict[int, set[Sentence | Whole]](), set[str](), set[str]()
        for turn, (text, same) in enumerate(zip(other.observations, self._sentences, strict=False)):
            sentences = list(split_sentences([text]))
            shown[turn] = set(sentences) | {self.read_whole(text, self._controls.echo)}
            there.update(*sentences)
            stated.update(*same)
            if not find_words(self._own.actions[turn : turn + 1]).isdisjoint(stated - there):
                break
        return shown


def _varies(own: Sentence, others: Sequence[Sentence]) -> bool:
    """Return True if the sentences are equally long, and each word is in all of them or differs in each control."""
    if any(len(other) != len(own) for other in others):
        return False
    columns = zip(own, *others, strict=True)
    return all({word} == set(column) or len(set(column)) == len(column) for word, *column in columns)


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
