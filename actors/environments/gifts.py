"""Find words that win a play although no observation states them. A hint with such a word gives the solution away.

Pure. The texts of a program are hostile, so only the beginning of each observation is read.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from actors.environments.offers import read_offer
from actors.environments.tools.evidence import READ_CHARACTERS, collect_leaves, find_pieces
from actors.text.actions import read_typed_action
from actors.text.conversation import Move
from actors.text.leaks import LEAST, THOUSANDS, SearchableText, normalise_visible
from spade.protocol import Observed

LEAST_SEQUENCE, MOST_SEQUENCE = 4, 8
"""Bounds of the length of an action sequence that a hint must not state. Shorter sequences may be equal by chance.
Longer sequences are cut."""
_WORD = re.compile(r"\d+(?:\.\d+)+(?!\w)|[^\W_]+")
ANY_WORD = re.compile(r"[^\W_]+")
_SIGNS = re.compile(r"[\W_]{3,}")
_PART = re.compile(r"-?\d+(?:\.\d+)?|[^\W\d_]+")
"""A number or a word of an action."""
MOST_FORMED = 256
"""The largest number of actions of one form that a player can be expected to try."""

ActionForm = tuple[str, ...]
"""The words of an action, with "#" for each number and "*" for each short word."""

Acted = TypeVar("Acted", str, Move)


class PlayerView(NamedTuple, Generic[Acted]):
    """One play from the view of its player."""

    actions: Sequence[Acted]
    """The actions of a game, or the moves of a player with tools."""
    observations: Sequence[str]
    """The observation before each action, and the last observation, which no action follows."""


def heard(seen: Observed) -> str:
    """Return the texts of an answer, cut to the length that this module reads.

    An escaped newline of a schema becomes a newline, so its "n" is not read as part of a word.
    """
    texts = (seen.observation, *(each.text for each in seen.results), seen.tools.replace("\\n", "\n"))
    return "\n".join(texts)[:READ_CHARACTERS]


def keep_findable(play: PlayerView[Acted], is_secret: Callable[[str], bool]) -> PlayerView[Acted]:
    """Return the beginning of a play, up to its first action that no player can find.

    Such an action is not offered, and it contains a secret word that no observation before it states. So no player
    without the hint sees the program's answer to it.
    """
    shown = list[SearchableText]()
    for turn, (action, observation) in enumerate(zip(play.actions, play.observations, strict=False)):
        shown.append(SearchableText(observation[:READ_CHARACTERS]))
        if _is_offered(action, observation):
            continue
        sought = filter(is_secret, dict.fromkeys(_split_words(action)))
        if any(not any(text.states(word) for text in shown) for word in sought):
            return PlayerView(play.actions[: turn + 1], play.observations[: turn + 1])
    return play


def find_words(moves: Iterable[Acted]) -> frozenset[str]:
    """Return all words of moves, also short ones."""
    return frozenset(word for move in moves for word in _split_words(move))


def _split_words(action: str | Move) -> list[str]:
    """Return all words of an action, or of the values of its calls. In a text without words, signs count as words."""
    if isinstance(action, Move):
        texts = list(collect_leaves([action])) if action.calls else [read_typed_action(action.action)]
    else:
        texts = [read_typed_action(action)]
    return [word for text in texts for word in ANY_WORD.findall(normalise_visible(text)) or text.split()]


def _is_offered(action: str | Move, observation: str) -> bool:
    if isinstance(action, Move):
        return not action.calls and _is_offered(action.action, observation)
    return read_offer(observation).has(read_typed_action(action))


def find_unseen_words(actions: Iterable[Acted], plays: Iterable[PlayerView[Acted]]) -> list[str]:
    """Return the words of the actions, of at least three letters or digits, that no observation of the plays states.

    A secret may be cut into pieces, so several shorter words in a row count as one word. In a call, each value counts
    as one word, and the short values of the call together count as one more word. Actions whose form is listed
    (`_has_listed_form`) are left out.
    """
    plays = list(plays)
    openings = {play.observations[0] for play in plays}
    listed = {_read_form(each) for opening in openings for each in _read_listed(opening)}
    words = dict.fromkeys(
        word for action in actions if not _has_listed_form(action, listed) for word in _split_action(action)
    )
    stated = find_tellings(words, plays)
    return [word for word in words if word not in stated]


def _has_listed_form(action: str | Move, listed: Iterable[tuple[ActionForm, Sequence[str]]]) -> bool:
    """Return True if a player can derive an action from the form of listed actions.

    `listed` has the form and the parts of each listed action. For example, `pour 3 to 1` follows from `pour 1 to 3`.
    The actions of one form differ only in numbers and short words. Each number of the action must be in a listed action
    of the form, and each short word must be at the same place in one. A number alone, or signs alone, never follow from
    a form. Returns False if more than MOST_FORMED actions follow, as for a code of digits, because a player cannot try
    them all.
    """
    if isinstance(action, Move):
        return not action.calls and _has_listed_form(action.action, listed)
    form, parts = _read_form(action)
    alike = [parts for other, parts in listed if other == form]
    if not alike or len(form) < 2:
        return False
    numbers = {part for each in alike for part, kind in zip(each, form, strict=True) if kind == "#"}
    count = 1
    for place, (part, kind) in enumerate(zip(parts, form, strict=True)):
        there = numbers if kind == "#" else {each[place] for each in alike}
        if part not in there:
            return False
        count *= len(there)
    return count <= MOST_FORMED


def _read_form(action: str) -> tuple[ActionForm, tuple[str, ...]]:
    """Return the form and the parts of an action."""
    parts = tuple(_PART.findall(normalise_visible(read_typed_action(action))))
    form = ("#" if part[-1].isdigit() else "*" if len(part) < LEAST else part for part in parts)
    return tuple(form), parts


def find_tellings(words: Iterable[str], plays: Iterable[PlayerView[Acted]]) -> dict[str, Sequence[Acted]]:
    """For each word that an observation states, find the fewest actions before such an observation.

    Observations after an action with the word do not count, since they may repeat the action. The last observation of a
    play does not count, since no action follows it.
    """
    words, found = list(words), dict[str, Sequence[Acted]]()
    for play in plays:
        sent = set[str]()
        for turn, (action, observation) in enumerate(zip(play.actions, play.observations, strict=False)):
            left = [word for word in words if word not in sent and not (word in found and len(found[word]) <= turn)]
            if not left:
                break
            text = SearchableText(observation[:READ_CHARACTERS])
            found |= {word: play.actions[:turn] for word in left if text.states(word)}
            sent.update(_split_action(action))
    return found


def find_stated_words(
    hint: SearchableText, moves: Sequence[Acted], plays: Sequence[PlayerView[Acted]]
) -> tuple[list[str], dict[str, Sequence[Acted]]]:
    """Return the words of the moves that the hint states and that the play of these moves does not show in time.

    For each of these words that another play shows, also return the fewest actions after which a play shows it.
    """
    stated = [word for word in find_unseen_words(_drop_submissions(moves), ()) if hint.states(word)]
    if not stated:
        return [], {}
    secret = find_words(moves)
    findable = [keep_findable(play, lambda word: word in secret or hint.states(word)) for play in plays]
    unseen = find_unseen_words(moves, select_own(findable, moves))
    words = [word for word in stated if word in unseen]
    return words, find_tellings(words, findable)


def select_own(plays: Iterable[PlayerView[Acted]], moves: Sequence[Acted]) -> list[PlayerView[Acted]]:
    """Return the plays of these moves. A play may end before the last of them."""
    return [play for play in plays if list(play.actions) == list(moves[: len(play.actions)])]


def _drop_submissions(moves: Sequence[Acted]) -> Sequence[Acted]:
    """Return the moves without the answers `done`, if there are calls. Every player is told to end with `done`."""
    if not any(isinstance(move, Move) and move.calls for move in moves):
        return moves
    return [move for move in moves if not (isinstance(move, Move) and not move.calls and _is_submission(move))]


def _is_submission(move: Move) -> bool:
    return move.action.strip().lower() == "done"


def _split_action(action: str | Move) -> list[str]:
    """Return the long words of an action, its joined runs of short words, and the values of its calls.

    The short values of a call are joined as well. If an action consists only of signs, the signs are its word. The
    answer `done` after calls does not count, since every player is told to end with it.
    """
    if isinstance(action, Move):
        values = [value for value in collect_leaves([action]) if len(value) >= LEAST]
        values += [piece for call in action.calls for piece in find_pieces(call)]
        return values if action.calls and _is_submission(action) else [*_split_action(action.action), *values]
    pieces, run = list[str](), ""
    plain = THOUSANDS.sub("", normalise_visible(action.replace("\\boxed", " "))).strip()
    if _SIGNS.fullmatch(plain):
        return [plain]
    for word in [*_WORD.findall(plain), ""]:
        short = word.replace(".", "")
        if 0 < len(short) < LEAST:
            run += short
            continue
        pieces += [run] if len(run) > LEAST else []
        pieces += [word] if word else []
        run = ""
    return pieces


def leave_out(actions: Iterable[Acted], words: Sequence[str]) -> list[Acted]:
    """Return the actions without the ones that contain a word. A message with several calls keeps its other calls."""
    left = list[Acted]()
    for action in actions:
        if not contain([action], words):
            left.append(action)
        elif isinstance(action, Move):
            calls = tuple(call for call in action.calls if not contain([Move("", (call,))], words))
            left += [dataclasses.replace(action, calls=calls)] if calls else []
    return left


def contain(actions: Iterable[str | Move], words: Iterable[str]) -> bool:
    """Return True if one of the actions contains one of the words."""
    words = set(words)
    return any(not words.isdisjoint(_split_action(action)) for action in actions)


def _read_listed(observation: str) -> Sequence[str]:
    """Return the actions that an observation lists, or () if no list can be read."""
    offer = read_offer(observation)
    return () if offer.kind == "guessed" else offer.readings[0]


def find_solving_words(unseen: Sequence[Sequence[str]]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return the unseen words that all solutions share, and the other unseen words of each solution.

    `unseen` has the words of each solution that no player can find on its instance.
    """
    shared = set.intersection(*map(set, unseen))
    others = [[word for word in words if word not in shared] for words in unseen]
    return [word for word in unseen[0] if word in shared], others


def find_common_sequence(solutions: Sequence[Sequence[str]]) -> str:
    """Return the first actions of the sequence that solves every instance, as one text.

    Words that all of these actions have are left out, since a hint need not repeat them. Returns "" if the solutions
    differ, if there is only one, or if they have few actions.
    """
    first = solutions[0]
    if len(solutions) < 2 or any(list(each) != list(first) for each in solutions) or len(first) < LEAST_SEQUENCE:
        return ""
    actions = [_split_words(each) for each in first[:MOST_SEQUENCE]]
    shared = set.intersection(*map(set, actions))
    own = [[word for word in each if word not in shared] for each in actions]
    return " ".join(word for each in (own if all(own) else actions) for word in each)
