"""Split texts into sentences, and find out which sentences are ordinary: a player reads such sentences in any play."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeAlias

from actors.environments.gifts import ANY_WORD
from actors.environments.tools.evidence import READ_CHARACTERS
from actors.text.leaks import LEAST, normalise_visible

MOST_SENTENCES = 1_000
"""At most this many sentences of one observation are read, since a program may write many."""
MOST_FORMS = 500
"""At most this many sentences are compared with at most this many forms."""
MOST_MIXED = 40
"""The largest number of words of a form that is compared with similar ones."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")

Sentence: TypeAlias = tuple[str, ...]
"""The words of a sentence, in lower case and without accents."""
SentenceForm: TypeAlias = frozenset[str]
"""The words of a sentence, with "#" for each number and "*" for each other short word."""


def split_sentences(texts: Iterable[str]) -> Iterator[Sentence]:
    """Yield the words of the first sentences of each text."""
    for text in texts:
        parts = (ANY_WORD.findall(part) for part in _SENTENCE_END.split(normalise_visible(text[:READ_CHARACTERS])))
        yield from map(tuple, islice(filter(None, parts), MOST_SENTENCES))


class OrdinarySentences:
    """Sentences that a player reads without certain words."""

    def __init__(self) -> None:
        self._by_form = defaultdict[SentenceForm, Counter[Sentence]](Counter)

    def add(self, texts: Iterable[str], echo: frozenset[str]) -> None:
        """Add the sentences of texts. The words in `echo` do not count."""
        for sentence in split_sentences(texts):
            self._by_form[_read_form(sentence, echo)][_drop_echo(sentence, echo)] += 1

    def find_others(self, sentences: Iterable[Sentence], echo: frozenset[str]) -> set[Sentence]:
        """Return the sentences that are not ordinary. A sentence is ordinary if there is one of its form.

        A few sentences are also ordinary if the words of their form come from similar ones (`_is_mixed`).
        """
        left = {sentence for sentence in sentences if not self._has(sentence, echo)}
        if len(left) > MOST_FORMS:
            return left
        return {sentence for sentence in left if not self._is_mixed(_read_form(sentence, echo))}

    def _has(self, sentence: Sentence, echo: frozenset[str]) -> bool:
        """Return True if there is a sentence of this form.

        A different sentence does not count if only one was read, more than once: `Humming: 7` after `Humming: 0`.
        """
        alike = self._by_form.get(_read_form(sentence, echo), Counter[Sentence]())
        return len(alike) > 1 or alike.total() == 1 or _drop_echo(sentence, echo) in alike

    def _is_mixed(self, form: SentenceForm) -> bool:
        """Return True if similar forms together have all of these words: `green grey yellow` is mixed from `green grey`
        and `grey yellow`. Two forms are similar if they share half of the words of both. A form without words, and a
        form with numbers that was read, is not mixed."""
        if not form or len(form) > MOST_MIXED or ("#" in form and form in self._by_form):
            return False
        others = (other for other in islice(self._by_form, MOST_FORMS) if other != form)
        similar = (other for other in others if 2 * len(form & other) >= len(form | other))
        return form <= frozenset().union(*similar)


def _drop_echo(sentence: Sentence, echo: frozenset[str]) -> Sentence:
    return tuple(word for word in sentence if word not in echo)


def _read_form(sentence: Sentence, echo: frozenset[str]) -> SentenceForm:
    """Return the form of a sentence without the echo."""
    kept = _drop_echo(sentence, echo)
    return frozenset("#" if word.isdecimal() else "*" if len(word) < LEAST else word for word in kept)
