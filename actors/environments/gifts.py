"""Words that win a game, though no observation shows them: a hint that states one is a gift, not a method. Pure.

All that a program says is hostile: of each observation only the beginning is read.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from actors.text.actions import boxed
from actors.text.leaks import LEAST, Told, visible

READ_CHARACTERS = 65_536
VALUE_CHARACTERS = 200
LEAST_SEQUENCE, MOST_SEQUENCE = 4, 8
"""Actions of a sequence that a hint may not spell out: fewer come out alike by chance, more need not be compared."""
_WORD = re.compile(r"[^\W_]+")


class Hearing(NamedTuple):
    """The actions of a play, and the observations before each of them. The last one came too late to be of use."""

    actions: Sequence[str]
    observations: Sequence[str]


def unseen_words(actions: Iterable[str], plays: Iterable[Hearing]) -> list[str]:
    """Return the words of at least three letters or digits in the actions that no observation of the plays tells.

    What a play hears after it has said a word may be an echo, and tells nothing. Shorter words in a row count as one
    word, since a secret may be cut into pieces.
    """
    words = dict.fromkeys(word for action in actions for word in _pieces(action))
    for play in plays:
        said = set[str]()
        for action, observation in zip(play.actions, play.observations, strict=False):
            if not words.keys() - said:
                break
            heard = Told(observation[:READ_CHARACTERS])
            words = {word: None for word in words if word in said or not heard.states(word)}
            said.update(_pieces(action))
    return list(words)


def _pieces(action: str) -> list[str]:
    """Return the long words of an action out of its box, and its runs of short words, each run as one word."""
    pieces, run = list[str](), ""
    for word in [*_WORD.findall(visible(boxed(action) or action)), ""]:
        if 0 < len(word) < LEAST:
            run += word
            continue
        pieces += [run] if len(run) > LEAST else []
        pieces += [word] if word else []
        run = ""
    return pieces


def without(actions: Iterable[str], words: Sequence[str]) -> list[str]:
    """Return the actions without any of the words."""
    return [action for action in actions if not set(_pieces(action)) & set(words)]


def solving_words(
    solutions: Sequence[Sequence[str]], plays: Sequence[Sequence[Hearing]]
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return the words unseen on their instance that all solutions have, and of each solution the others.

    `plays` are the plays on the instance of each solution.
    """
    unseen = [unseen_words(solution, heard) for solution, heard in zip(solutions, plays, strict=True)]
    shared = set.intersection(*map(set, unseen))
    others = [[word for word in words if word not in shared] for words in unseen]
    return [word for word in unseen[0] if word in shared], others


def common_sequence(solutions: Sequence[Sequence[str]]) -> str:
    """Return the first actions that solve every instance alike, as one text; "" if they differ or are few."""
    first = solutions[0]
    alike = len(solutions) > 1 and all(list(each) == list(first) for each in solutions)
    return " ".join(first[:MOST_SEQUENCE]) if alike and len(first) >= LEAST_SEQUENCE else ""
