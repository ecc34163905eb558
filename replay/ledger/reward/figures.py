"""Compute the figures of a window from its plays. Pure.

A void play might have had any return from -1 to 1. So figures are bounded over all these returns.
"""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from replay.ledger.records import PlayRecord
from spade.estimates import compute_mean_and_error
from spade.returns import is_won

ENDED = ("finished", "void")


class Regret(msgspec.Struct, frozen=True):
    """Hint-based regret: mean return with the hint − mean return without it, over plays on the same instances."""

    mean: float
    """The regret."""
    error: float | None
    """Standard error of the paired difference; None for fewer than two pairs."""
    pairs: int
    """Number of pairs of an unhinted play and its hinted twin."""


class Bounds(NamedTuple):
    """The range of a figure over all returns that the void plays could have had."""

    least: float
    """The least value."""
    greatest: float
    """The greatest value."""


ANY_RETURN = Bounds(-1.0, 1.0)


class Change(msgspec.Struct, frozen=True):
    """The change of the unhinted win rate from the first half of a window's chunks to its second half."""

    bounds: Bounds
    """The change, over all returns that the void plays could have had."""
    error: float
    """The greatest standard error that the change can have if both halves are won equally often."""


class PairCounts(NamedTuple):
    """Counts of a window's pairs. Pairs with a won hinted play are divided by what the unhinted play did.

    A player who knows the secret needs no more turns than the hinted play. So an unhinted play that took more turns
    has explored.
    """

    void: int
    """Pairs with at least one void play. Each counts as the case that pays the designer least."""
    known: int
    """Pairs with a won hinted play and without a void play."""
    at_once: int
    """Number of `known` pairs in which the unhinted play was won without exploring."""
    cut: int
    """Number of `known` pairs in which the unhinted play was lost before it could explore."""
    explored: int
    """Number of `known` pairs in which the unhinted play explored."""
    found: int
    """Number of `known` pairs in which the unhinted play explored and won."""

    @property
    def exploring_helps(self) -> bool:
        """True if players that explore win more often than players win without exploring.

        Over the known pairs, compares the win rate of the unhinted plays that explored with the share of all unhinted
        plays that won without exploring. Void pairs count against exploring.
        """
        return self.found * (self.known + self.void) > (self.at_once + self.void) * (self.explored + self.void)

    def count_cut_losses(self, plays: int) -> int | None:
        """Estimate how many of `plays` unhinted plays were lost before they could explore.

        The estimate is `plays` times the share of such plays in the pairs. Returns None if no pair is void and no play
        explored and won.
        """
        if not self.found + self.void:
            return None
        return -(-plays * (self.cut + self.void) // (self.known + self.void))  # rounded up


def compute_mean_return(finished: Sequence[PlayRecord]) -> float | None:
    """Return the mean return of the unhinted plays; None without one. The order of plays does not matter."""
    returns = [play.episode_return for play in finished if not play.hinted]
    return math.fsum(returns) / len(returns) if returns else None


def pair_returns(finished: Sequence[PlayRecord]) -> list[tuple[float, float]]:
    """Return (unhinted return, hinted return) of each pair in which both plays finished."""
    return [(unhinted.episode_return, hinted.episode_return) for unhinted, hinted in _pair_plays(finished)]


def compute_win_rate(finished: Sequence[PlayRecord], hinted: bool, win_return: float) -> float | None:
    """Return the share of won plays in one arm; None without a play."""
    wins = [is_won(play.episode_return, win_return) for play in finished if play.hinted == hinted]
    return sum(wins) / len(wins) if wins else None


def compute_change(unhinted: Sequence[PlayRecord], doubtful: int, win_return: float) -> Change | None:
    """Return the change of the win rate over a window's unhinted plays that ended; None for plays of a single chunk.

    `doubtful` is the number of void plays and of lost plays that count as void. Each of them might have been won, in
    either half.
    """
    chunks = sorted({play.chunk for play in unhinted})
    if len(chunks) < 2:
        return None
    middle = chunks[len(chunks) // 2]
    halves = [play for play in unhinted if play.chunk < middle], [play for play in unhinted if play.chunk >= middle]
    won = [sum(_is_won(play, win_return) for play in half) for half in halves]
    early, late = (
        Bounds(wins / len(half), min(wins + doubtful, len(half)) / len(half))
        for wins, half in zip(won, halves, strict=True)
    )
    plays = len(unhinted)
    # The error is greatest for the possible win rate that is nearest to 0.5.
    rate = min(max(0.5, sum(won) / plays), min(sum(won) + doubtful, plays) / plays)
    error = math.sqrt(rate * (1 - rate) * sum(1 / len(half) for half in halves))
    return Change(Bounds(late.least - early.greatest, late.greatest - early.least), error)


def count_pairs(plays: Iterable[PlayRecord], win_return: float) -> PairCounts:
    """Count the pairs of a window."""
    void = known = at_once = cut = explored = found = 0
    for unhinted, hinted in _pair_plays(plays):
        if "void" in (unhinted.state, hinted.state):
            void += 1
        elif _is_won(hinted, win_return):
            known += 1
            won = _is_won(unhinted, win_return)
            if unhinted.turns > hinted.turns:
                explored += 1
                found += won
            else:
                at_once += won
                cut += not won
    return PairCounts(void, known, at_once, cut, explored, found)


def compute_paired_regret(pairs: Sequence[tuple[float, float]]) -> Regret | None:
    """Return the regret over pairs (unhinted return, hinted return); None without a pair."""
    return _average_differences([hinted - unhinted for unhinted, hinted in pairs])


def compute_least_regret(plays: Iterable[PlayRecord]) -> Regret | None:
    """Return the least regret over all returns that the void plays of pairs could have had; None without a pair.

    Its error is the greatest possible one: the greater bound of each difference enters the sum of squares.
    """
    return _bound_regret([_find_difference(*pair) for pair in _pair_plays(plays)])


def compute_found_regret(plays: Iterable[PlayRecord]) -> Regret | None:
    """Return `compute_least_regret`, but a pair counts at most 0 if its unhinted play took no more turns than its twin.

    Such a play was over before it could find out what the hint says, so luck decided it.
    """
    bounds = []
    for unhinted, hinted in _pair_plays(plays):
        least, greatest = _find_difference(unhinted, hinted)
        if least == greatest and unhinted.turns <= hinted.turns:
            greatest = least = min(least, 0.0)
        bounds.append(Bounds(least, greatest))
    return _bound_regret(bounds)


def _is_won(play: PlayRecord, win_return: float) -> bool:
    return play.state == "finished" and is_won(play.episode_return, win_return)


def _pair_plays(plays: Iterable[PlayRecord]) -> list[tuple[PlayRecord, PlayRecord]]:
    """Return the pairs (unhinted play, hinted twin) in which both plays ended. Twins have the same index."""
    arms = {(play.index, play.hinted): play for play in plays if play.state in ENDED}
    return [(arms[i, False], play) for (i, hinted), play in arms.items() if hinted and (i, False) in arms]


def _find_difference(unhinted: PlayRecord, hinted: PlayRecord) -> Bounds:
    u, h = find_return_bounds(unhinted), find_return_bounds(hinted)
    return Bounds(h.least - u.greatest, h.greatest - u.least)


def find_return_bounds(play: PlayRecord) -> Bounds:
    """Bound the return of a play that ended."""
    return ANY_RETURN if play.state == "void" else Bounds(play.episode_return, play.episode_return)


def _bound_regret(differences: Sequence[Bounds]) -> Regret | None:
    if all(each.least == each.greatest for each in differences):
        return _average_differences([each.least for each in differences])
    n, mean = len(differences), math.fsum(each.least for each in differences) / len(differences)
    if n < 2:
        return Regret(mean, None, n)
    squares = math.fsum(max(each.least**2, each.greatest**2) for each in differences)
    return Regret(mean, math.sqrt(max(0.0, squares / n - mean**2) / (n - 1)), n)


def _average_differences(differences: Sequence[float]) -> Regret | None:
    return Regret(*compute_mean_and_error(differences), len(differences)) if differences else None
