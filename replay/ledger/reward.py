"""Compute an environment's figures from a window of plays, and the designer's reward for it. Pure.

A reward is a function of a window's figures. `KINDS` has the rewards by name, and docs/designing.md says when to use
which. A void play might have had any return from -1 to 1. The reward is the least over all these returns, so a program
cannot earn more by a fault, whichever play it ends.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from replay.ledger.records import MovingAverages, PlayRecord, Score
from spade.config import Config, Reward
from spade.estimates import compute_mean_and_error
from spade.returns import is_won

LEARNABLE = (0.2, 0.8)
ENDED = ("finished", "void")
NOVELTY_WEIGHT = 0.2  # of the novelty; the anchor has weight 1
FAST = 0.2  # weight of a new window: the average forgets over about five windows, less than a round


class Regret(msgspec.Struct, frozen=True):
    """Hint-based regret: mean return with the hint − mean return without it, over plays on the same instances."""

    mean: float
    """The regret."""
    error: float | None
    """Standard error of the paired difference; None for fewer than two pairs."""
    pairs: int
    """Number of pairs: instances with a hinted and an unhinted play."""


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


class Measured(msgspec.Struct, frozen=True):
    """The figures of a window, as a reward sees them. Without void plays and luck, the two bounds are equal."""

    regret: Regret | None
    """The least regret over the pairs of chunk 0; None without a pair."""
    win_rate: Bounds
    """Win rate of all unhinted plays that ended."""
    mean_return: Bounds
    """Mean return of the same plays."""
    slow: float | None
    """The slow average of the skill before this window; None for the first window."""
    similarity: float | None
    """Similarity of the program to the nearest program in memory; None if the memory was empty."""
    change: Change | None = None
    """The change of the win rate over the chunks; None for plays of a single chunk."""
    found: Regret | None = None
    """The least regret without losses that left no turn to explore; None if exploring does not help."""
    explored_rate: Bounds | None = None
    """`win_rate`, if these losses count as void; None without a pair in which exploring was seen to help once."""


class PairCounts(NamedTuple):
    """Counts of the pairs whose hinted play was won, by their unhinted plays.

    A player who knows the secret needs as many turns as the hinted play. An unhinted play that lasted longer explored.
    """

    void: int
    """Pairs with a void play, whoever won. They count as whatever pays least."""
    known: int
    """All pairs whose hinted play was won."""
    at_once: int
    """Of these, pairs whose unhinted play was won without exploring."""
    cut: int
    """Pairs whose unhinted play was lost without a turn to explore."""
    explored: int
    """Pairs whose unhinted play explored."""
    found: int
    """Pairs whose unhinted play explored and won."""

    @property
    def exploring_helps(self) -> bool:
        """True if the share of wins among plays that explored exceeds the share of plays that won without exploring."""
        return self.found * (self.known + self.void) > (self.at_once + self.void) * (self.explored + self.void)

    def count_cut_losses(self, plays: int) -> int | None:
        """Return how many of so many unhinted plays luck decided, by the share of pairs. None if no play found out."""
        if not self.found + self.void:
            return None
        return -(-plays * (self.cut + self.void) // (self.known + self.void))  # rounded up


def score_of(
    plays: Sequence[PlayRecord],
    luck: int,
    quarantined: bool,
    before: MovingAverages | None,
    similarity: float | None,
    config: Config,
) -> Score:
    """Return a window's figures.

    `luck` is the number of lost unhinted plays that count as void (`count_lucky`). `before` has the averages of the
    skill before this window. It is None for the first window.
    """
    finished = [play for play in plays if play.state == "finished"]
    regret = compute_paired_regret(pair_returns(finished))
    least = compute_least_regret(plays)
    win_rate, win_rate_hinted = (
        _compute_win_rate(finished, hinted, config.play.win_return) for hinted in (False, True)
    )
    score = Score(
        reward=None,
        regret=None if regret is None else regret.mean,
        regret_error=None if regret is None else regret.error,
        win_rate=win_rate,
        win_rate_hinted=win_rate_hinted,
        learnable=False,
        plays=len(finished),
        voids=sum(play.state == "void" for play in plays),
        mean_return=compute_mean_return(finished),
        slow=None if before is None else before.slow,
        luck=luck,
        least_regret=None if least is None else least.mean,
    )
    window = measure(plays, score, similarity, config.play.win_return)
    score.learnable = not quarantined and window is not None and all(map(is_learnable, window.win_rate))
    score.reward = compute_window_reward(window, quarantined, config.reward)
    return score


def measure(plays: Sequence[PlayRecord], score: Score, similarity: float | None, win_return: float) -> Measured | None:
    """Bound the figures of a window by its plays and the win rate, luck and slow average of its score.

    Returns None without an unhinted play that ended. If the window was scored before voids counted (`score.luck` is
    None), void plays are left out.
    """
    if score.luck is None:
        plays = [play for play in plays if play.state == "finished"]
    unhinted = [play for play in plays if not play.hinted and play.state in ENDED]
    if not unhinted:
        return None
    returns = [_find_bounds(play) for play in unhinted]
    voids = sum(play.state == "void" for play in unhinted)
    wins = round((score.win_rate or 0.0) * (len(unhinted) - voids))
    luck, pairs = score.luck or 0, count_pairs(plays, win_return)
    cut = pairs.count_cut_losses(len(unhinted))
    return Measured(
        compute_least_regret(plays),
        Bounds(wins / len(unhinted), (wins + voids + luck) / len(unhinted)),
        Bounds(*(math.fsum(values) / len(unhinted) for values in zip(*returns, strict=True))),
        score.slow,
        similarity,
        compute_change(unhinted, voids + luck, win_return),
        compute_found_regret(plays) if pairs.exploring_helps else None,
        None
        if cut is None
        else Bounds(*(min(count / len(unhinted), 1.0) for count in (wins, wins + voids + luck + cut))),
    )


def compute_window_reward(window: Measured | None, quarantined: bool, settings: Reward) -> float | None:
    """Return the designer's reward for a window; None if the figure that it rewards was not measured."""
    if quarantined:
        return 0.0
    return None if window is None else KINDS[settings.kind](window, settings)


def regret_and_anchor(window: Measured, settings: Reward) -> float:
    """Return regret_weight · normalised regret + anchor_weight · anchor; without a pair the regret's part is 0."""
    return _pay_regret(window.regret, settings) + settings.anchor_weight * least_anchor(window, settings)


def progress(window: Measured, settings: Reward) -> float:
    """Return regret_weight · normalised regret + anchor_weight · the absolute change of the win rate, normalised.

    The change takes the place of the anchor: it is the absolute learning progress |new − old| of Portelas et al. 2019.
    Its weights get newer from chunk to chunk. The change of a few plays is mostly luck, so it is shrunk by its error.
    """
    size = 0.0
    if window.change is not None:
        bounds, error = window.change.bounds, window.change.error
        size = _shrink(max(0.0, bounds.least, -bounds.greatest), error)
    return _pay_regret(window.regret, settings) + settings.anchor_weight * min(size / settings.regret_scale, 1.0)


def finding(window: Measured, settings: Reward) -> float:
    """Return `regret_and_anchor`, but pay only as far as players can find out what the hint says.

    If the later weights of the window won more often than the earlier ones, by more than the error, all is paid. Else
    two things change. The regret is paid only if exploring helps, and without the losses that left no turn to explore.
    If exploring helped at least one play, these losses also count as void in the anchor.
    """
    if window.change is not None and window.change.bounds.least > window.change.error:
        return regret_and_anchor(window, settings)
    anchor = min(compute_anchor(rate, settings) for rate in window.explored_rate or window.win_rate)
    return _pay_regret(window.found, settings) + settings.anchor_weight * anchor


def _pay_regret(regret: Regret | None, settings: Reward) -> float:
    return 0.0 if regret is None else settings.regret_weight * normalise_regret(regret, settings)


def learning_potential(window: Measured, settings: Reward) -> float | None:
    """Return the least |mean return − slow average of the skill|; None for the first window of a skill."""
    if window.slow is None:
        return None
    least, greatest = window.mean_return
    return max(0.0, least - window.slow, window.slow - greatest)


def least_anchor(window: Measured, settings: Reward) -> float:
    """Return the least difficulty anchor within the bounds of the win rate. It is at one of the bounds."""
    return min(compute_anchor(win_rate, settings) for win_rate in window.win_rate)


def calibrated_novelty(window: Measured, settings: Reward) -> float:
    """Return the difficulty anchor + NOVELTY_WEIGHT · (1 − similarity); 0 if all plays may have been won, or lost.

    Without an earlier program to compare with, the novelty is 1.
    """
    if not 0 < window.win_rate.least <= window.win_rate.greatest < 1:
        return 0.0
    return least_anchor(window, settings) + NOVELTY_WEIGHT * (1 - (window.similarity or 0.0))


KINDS: dict[str, Callable[[Measured, Reward], float | None]] = {
    "regret": regret_and_anchor,
    "progress": progress,
    "finding": finding,
    "learning_potential": learning_potential,
    "win_rate": least_anchor,
    "calibrated_novelty": calibrated_novelty,
}


def add_to_averages(before: MovingAverages | None, mean: float, settings: Reward) -> MovingAverages:
    """Add the mean return of one window to the averages of a skill, by the weights FAST and `reward.slow`.

    The first window sets both averages.
    """
    if before is None:
        return MovingAverages(mean, mean)
    fast = before.fast + FAST * (mean - before.fast)
    slow = before.slow + settings.slow * (mean - before.slow)
    return MovingAverages(fast, slow, before.windows + 1)


def compute_mean_return(finished: Sequence[PlayRecord]) -> float | None:
    """Return the mean return of the unhinted plays; None without one. The order of plays does not matter."""
    returns = [play.episode_return for play in finished if not play.hinted]
    return math.fsum(returns) / len(returns) if returns else None


def pair_returns(finished: Sequence[PlayRecord]) -> list[tuple[float, float]]:
    """Return (unhinted return, hinted return) of each instance whose plays finished in both arms."""
    arms = {(play.index, play.hinted): play.episode_return for play in finished}
    return [(arms[i, False], value) for (i, hinted), value in arms.items() if hinted and (i, False) in arms]


def _compute_win_rate(finished: Sequence[PlayRecord], hinted: bool, win_return: float) -> float | None:
    wins = [is_won(play.episode_return, win_return) for play in finished if play.hinted == hinted]
    return sum(wins) / len(wins) if wins else None


def compute_change(unhinted: Sequence[PlayRecord], doubtful: int, win_return: float) -> Change | None:
    """Return the change of the win rate over a window's unhinted plays that ended; None for plays of a single chunk.

    `doubtful` is the number of void plays, and of lost plays that count as void. Each may be won, in either half.
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
    rate = min(max(0.5, sum(won) / plays), min(sum(won) + doubtful, plays) / plays)  # of all possible, nearest to 0.5
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


def _is_won(play: PlayRecord, win_return: float) -> bool:
    return play.state == "finished" and is_won(play.episode_return, win_return)


def _pair_plays(plays: Iterable[PlayRecord]) -> list[tuple[PlayRecord, PlayRecord]]:
    """Return (unhinted play, hinted play) of each instance, if its plays ended in both arms."""
    arms = {(play.index, play.hinted): play for play in plays if play.state in ENDED}
    return [(arms[i, False], play) for (i, hinted), play in arms.items() if hinted and (i, False) in arms]


def compute_least_regret(plays: Iterable[PlayRecord]) -> Regret | None:
    """Return the least regret over all returns that the void plays of pairs could have had; None without a pair.

    Its error is the greatest for that mean: each difference enters the sum of squares with its greater bound.
    """
    return _bound_regret([_find_difference(*pair) for pair in _pair_plays(plays)])


def compute_found_regret(plays: Iterable[PlayRecord]) -> Regret | None:
    """Return `compute_least_regret`, but a pair counts at most 0 if its unhinted play lasted no longer than the hinted.

    Luck decided such a play, because it left no turn in which to find out what the hint says.
    """
    bounds = []
    for unhinted, hinted in _pair_plays(plays):
        least, greatest = _find_difference(unhinted, hinted)
        if least == greatest and unhinted.turns <= hinted.turns:
            greatest = least = min(least, 0.0)
        bounds.append(Bounds(least, greatest))
    return _bound_regret(bounds)


def _find_difference(unhinted: PlayRecord, hinted: PlayRecord) -> Bounds:
    u, h = _find_bounds(unhinted), _find_bounds(hinted)
    return Bounds(h.least - u.greatest, h.greatest - u.least)


def _bound_regret(differences: Sequence[Bounds]) -> Regret | None:
    if all(each.least == each.greatest for each in differences):
        return _average_differences([each.least for each in differences])
    n, mean = len(differences), math.fsum(each.least for each in differences) / len(differences)
    if n < 2:
        return Regret(mean, None, n)
    squares = math.fsum(max(each.least**2, each.greatest**2) for each in differences)
    return Regret(mean, math.sqrt(max(0.0, squares / n - mean**2) / (n - 1)), n)


def _find_bounds(play: PlayRecord) -> Bounds:
    """Bound the return of a play that ended."""
    return ANY_RETURN if play.state == "void" else Bounds(play.episode_return, play.episode_return)


def compute_paired_regret(pairs: Sequence[tuple[float, float]]) -> Regret | None:
    """Return the regret over pairs (unhinted return, hinted return), one for each instance; None without a pair."""
    return _average_differences([hinted - unhinted for unhinted, hinted in pairs])


def _average_differences(differences: Sequence[float]) -> Regret | None:
    return Regret(*compute_mean_and_error(differences), len(differences)) if differences else None


def shrink_regret(regret: Regret) -> float:
    """Shrink the regret towards 0 by its noise (positive-part James-Stein): regret · max(0, 1 − error² / regret²)."""
    return 0.0 if regret.error is None else _shrink(regret.mean, regret.error)


def _shrink(value: float, error: float) -> float:
    return value * max(0.0, 1 - (error / value) ** 2) if value else 0.0


def normalise_regret(regret: Regret, reward: Reward) -> float:
    """Return the regret, shrunk if `reward.shrink`, in units of `regret_scale` and clipped to [0, 1]."""
    value = shrink_regret(regret) if reward.shrink else regret.mean
    return min(max(value, 0.0) / reward.regret_scale, 1.0)


def compute_anchor(win_rate: float, reward: Reward) -> float:
    """Return the difficulty anchor: 1 in [anchor_low, anchor_high], falling linearly to 0 over `anchor_ramp` beside."""
    distance = max(reward.anchor_low - win_rate, win_rate - reward.anchor_high, 0.0)
    return max(0.0, 1 - distance / reward.anchor_ramp)


def is_learnable(win_rate: float) -> bool:
    """Return True for a win rate in [0.2, 0.8]."""
    return LEARNABLE[0] <= win_rate <= LEARNABLE[1]
