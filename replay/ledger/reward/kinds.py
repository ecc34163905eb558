"""The designer's reward for a window, as a function of the window's figures. Pure.

`KINDS` has the rewards by name, and docs/designing.md says when to use which. A void play might have had any return.
Each reward takes the returns that pay least, so a program cannot earn more by ending a play with a fault.
"""

from collections.abc import Callable

import msgspec

from replay.ledger.reward.figures import Bounds, Change, Regret
from spade.config import Reward

NOVELTY_WEIGHT = 0.2  # weight of the novelty; the weight of the anchor is 1


class WindowFigures(msgspec.Struct, frozen=True):
    """The figures of a window from which a reward is computed. Without void plays and luck, each figure's bounds are
    equal."""

    regret: Regret | None
    """The least regret over the pairs of chunk 0; None without a pair."""
    win_rate: Bounds
    """Win rate of all unhinted plays that ended."""
    mean_return: Bounds
    """Mean return of the same plays."""
    slow: float | None
    """The slow moving average of the skill's mean returns before this window; None for the skill's first window."""
    similarity: float | None
    """Similarity of the program to the nearest program in memory; None if the memory was empty."""
    change: Change | None = None
    """The change of the win rate over the chunks; None for plays of a single chunk."""
    found: Regret | None = None
    """Like `regret`, but a loss before the play could explore counts at most 0. None if exploring does not help."""
    explored_rate: Bounds | None = None
    """Like `win_rate`, but losses before the play could explore count as void.

    None if no play explored and won, and no pair is void.
    """


def regret_and_anchor(window: WindowFigures, settings: Reward) -> float:
    """Return regret_weight · normalised regret + anchor_weight · anchor; without a pair the regret's part is 0."""
    return _pay_regret(window.regret, settings) + settings.anchor_weight * least_anchor(window, settings)


def progress(window: WindowFigures, settings: Reward) -> float:
    """Return regret_weight · normalised regret + anchor_weight · the absolute change of the win rate, normalised.

    The change takes the place of the anchor: it is the absolute learning progress |new − old| of Portelas et al. 2019,
    because the policy gets newer from chunk to chunk. The change of a few plays is mostly luck, so it is shrunk by its
    error.
    """
    size = 0.0
    if window.change is not None:
        bounds, error = window.change.bounds, window.change.error
        size = _shrink(max(0.0, bounds.least, -bounds.greatest), error)
    return _pay_regret(window.regret, settings) + settings.anchor_weight * min(size / settings.regret_scale, 1.0)


def finding(window: WindowFigures, settings: Reward) -> float:
    """Return `regret_and_anchor`, reduced if players cannot find out what the hint says.

    If the win rate rose within the window by more than its error, nothing is reduced. Otherwise:

    * The regret is paid only if exploring helps. A loss before the play could explore adds at most 0 to the regret.
    * If at least one play explored and won, these losses also count as void in the anchor.
    """
    if window.change is not None and window.change.bounds.least > window.change.error:
        return regret_and_anchor(window, settings)
    anchor = min(compute_anchor(rate, settings) for rate in window.explored_rate or window.win_rate)
    return _pay_regret(window.found, settings) + settings.anchor_weight * anchor


def learning_potential(window: WindowFigures, settings: Reward) -> float | None:
    """Return the least |mean return − slow average of the skill|; None for the first window of a skill."""
    if window.slow is None:
        return None
    least, greatest = window.mean_return
    return max(0.0, least - window.slow, window.slow - greatest)


def least_anchor(window: WindowFigures, settings: Reward) -> float:
    """Return the least difficulty anchor within the bounds of the win rate. One of the bounds has the least anchor."""
    return min(compute_anchor(win_rate, settings) for win_rate in window.win_rate)


def calibrated_novelty(window: WindowFigures, settings: Reward) -> float:
    """Return the difficulty anchor + NOVELTY_WEIGHT · (1 − similarity); 0 if the plays may all be won, or all lost.

    Without an earlier program to compare with, the novelty is 1.
    """
    if not 0 < window.win_rate.least <= window.win_rate.greatest < 1:
        return 0.0
    return least_anchor(window, settings) + NOVELTY_WEIGHT * (1 - (window.similarity or 0.0))


KINDS: dict[str, Callable[[WindowFigures, Reward], float | None]] = {
    "regret": regret_and_anchor,
    "progress": progress,
    "finding": finding,
    "learning_potential": learning_potential,
    "win_rate": least_anchor,
    "calibrated_novelty": calibrated_novelty,
}


def _pay_regret(regret: Regret | None, settings: Reward) -> float:
    return 0.0 if regret is None else settings.regret_weight * normalise_regret(regret, settings)


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
    """Return the difficulty anchor.

    It is 1 in [anchor_low, anchor_high] and falls linearly to 0 within `anchor_ramp` on each side.
    """
    distance = max(reward.anchor_low - win_rate, win_rate - reward.anchor_high, 0.0)
    return max(0.0, 1 - distance / reward.anchor_ramp)
