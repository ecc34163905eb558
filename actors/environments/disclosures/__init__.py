"""Find what a program tells only to a player who sends certain words. Nobody without these words learns it.

No text is interpreted here. The texts of a play are compared with the texts of other plays: of the same moves without
the words, of the same moves with other words in their place, and of the same moves on other instances.
"""

import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeAlias

import trio

from actors.environments.disclosures.comparison import Comparison
from actors.environments.disclosures.controls import make_controls
from actors.environments.gifts import Acted, PlayerView, contain, leave_out

ELSEWHERE = 2
"""Number of other instances on which the moves are played."""
REST_PLAYS = 3
"""Number of plays with which the moves that are left must prove that they need no word. Luck may win one play."""
MOST_BORROWED = 20
"""At most this many plays without the hint show what other players send."""

View: TypeAlias = Callable[[Sequence[Acted]], Awaitable[PlayerView[Acted]]]
"""Plays moves and returns the play as its player sees it."""


class Rest(NamedTuple, Generic[Acted]):
    """The moves of a play without certain words, and without all moves after something that the words tell."""

    without: Sequence[Acted]
    """The moves that do not contain the words."""
    replaced: Sequence[Sequence[Acted]]
    """All moves, with other words in place of the words: up to CONTROLS times."""


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
    `elsewhere` on a new instance at each call. `unaided` are plays of players that know no hint.

    A sentence tells something if it is not ordinary (`OrdinarySentences`), and if it has a word of a later move or
    tells something about the instance. A sentence is ordinary if a player reads one of its form before the words,
    without the words, with other words in their place, or in `unaided`. So a word that works like any other tells
    nothing, for example the first guess of a search.

    A whole observation tells something if it is odd (`Comparison.find_told`), and tells something about the instance.
    So a program cannot tell something by choosing among known sentences.

    Something tells nothing about the instance if other instances show it at the same turn (`Comparison.keep_telling`).
    """
    moves = list(own.actions)
    if not contain(moves, words):
        return Rest(moves, [])
    without_words = [play for play in unaided if not contain(play.actions, words)]
    sent = [play.actions for play in without_words[:MOST_BORROWED]]
    controls = await trio.to_thread.run_sync(make_controls, own, words, sent, draw)
    plays = [await here(control.moves) for control in controls.all]
    comparison = await trio.to_thread.run_sync(Comparison, own, controls, plays)
    told = await trio.to_thread.run_sync(comparison.find_told, without_words)
    if not all(each.names_move for each in told):
        others = [await elsewhere(moves) for _ in range(ELSEWHERE)]
        told = await trio.to_thread.run_sync(comparison.keep_telling, told, others)
    end = min((each.turn for each in told), default=len(moves))
    return Rest(leave_out(moves[:end], words), [control.moves[:end] for control in controls.replaced])
