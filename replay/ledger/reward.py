"""An environment's figures from a window of plays, and the designer's reward for it. Pure.

A reward is a function of what a window measured; `KINDS` has them by name. docs/designing.md says when to use which.
"""

import math
from collections.abc import Callable, Iterable, Sequence

import msgspec

from replay.ledger.records import MovingAverages, PlayRecord, Score
from spade.config import Config, Reward
from spade.estimates import mean_and_error
from spade.returns import won

LEARNABLE = (0.2, 0.8)


class Regret(msgspec.Struct, frozen=True):
    """Hint-based regret: mean return with the hint − mean return without, over `pairs` plays on the same instances.

    `error` is the standard error of the paired difference, None under two pairs.
    """

    mean: float
    error: float | None
    pairs: int


class Measured(msgspec.Struct, frozen=True):
    """The figures of a window, as a reward sees them.

    regret       over the pairs of chunk 0; None without one
    win_rate     over all unhinted plays that finished
    mean_return  of the same plays
    slow         the slow average of its skill before this window; None if it is the first
    similarity   of its program to the nearest of the memory; None if there was none
    """

    regret: Regret | None
    win_rate: float
    mean_return: float
    slow: float | None
    similarity: float | None


def score_of(
    plays: Sequence[PlayRecord],
    quarantined: bool,
    before: MovingAverages | None,
    similarity: float | None,
    config: Config,
) -> Score:
    """A window's figures. `before`: the averages of its skill, None before its first window."""
    finished = [play for play in plays if play.state == "finished"]
    regret = paired_regret(paired_returns(finished))
    win_rate, win_rate_hinted = (_win_rate(finished, hinted, config.play.win_return) for hinted in (False, True))
    score = Score(
        reward=None,
        regret=None if regret is None else regret.mean,
        regret_error=None if regret is None else regret.error,
        win_rate=win_rate,
        win_rate_hinted=win_rate_hinted,
        learnable=not quarantined and win_rate is not None and learnable(win_rate),
        plays=len(finished),
        voids=sum(play.state == "void" for play in plays),
        mean_return=mean_return(finished),
        slow=None if before is None else before.slow,
    )
    score.reward = window_reward(score, regret, similarity, quarantined, config.reward)
    return score


def window_reward(
    score: Score, regret: Regret | None, similarity: float | None, quarantined: bool, settings: Reward
) -> float | None:
    """The designer's reward for a window with these figures; None if what it pays for was not measured."""
    if quarantined:
        return 0.0
    if score.win_rate is None or score.mean_return is None:  # no unhinted play finished
        return None
    window = Measured(regret, score.win_rate, score.mean_return, score.slow, similarity)
    return KINDS[settings.kind](window, settings)


def regret_and_anchor(window: Measured, settings: Reward) -> float:
    """regret_weight · normalised regret + anchor_weight · anchor; without a pair the regret's part is 0."""
    part = 0.0 if window.regret is None else normalised_regret(window.regret, settings)
    return settings.regret_weight * part + settings.anchor_weight * anchor(window.win_rate, settings)


def learning_potential(window: Measured, settings: Reward) -> float | None:
    """|mean return − slow average of the skill|; None for its first window, which has nothing to be compared with."""
    return None if window.slow is None else abs(window.mean_return - window.slow)


def win_rate_anchor(window: Measured, settings: Reward) -> float:
    """The difficulty anchor alone."""
    return anchor(window.win_rate, settings)


def calibrated_novelty(window: Measured, settings: Reward) -> float:
    """The difficulty anchor + novelty_weight · (1 − similarity); 0 where each play was won, or none.

    Without an earlier program to compare with, the novelty is 1.
    """
    if not 0 < window.win_rate < 1:
        return 0.0
    return anchor(window.win_rate, settings) + settings.novelty_weight * (1 - (window.similarity or 0.0))


KINDS: dict[str, Callable[[Measured, Reward], float | None]] = {
    "regret": regret_and_anchor,
    "learning_potential": learning_potential,
    "win_rate": win_rate_anchor,
    "calibrated_novelty": calibrated_novelty,
}


def averaged(before: MovingAverages | None, mean: float, settings: Reward) -> MovingAverages:
    """The averages of a skill with one more window, whose mean return weighs `fast` and `slow`; the first sets both."""
    if before is None:
        return MovingAverages(mean, mean)
    fast = before.fast + settings.fast * (mean - before.fast)
    slow = before.slow + settings.slow * (mean - before.slow)
    return MovingAverages(fast, slow, before.windows + 1)


def mean_return(finished: Sequence[PlayRecord]) -> float | None:
    """Mean return of the unhinted plays, whatever their order; None without one."""
    returns = [play.episode_return for play in finished if not play.hinted]
    return math.fsum(returns) / len(returns) if returns else None


def paired_returns(finished: Sequence[PlayRecord]) -> list[tuple[float, float]]:
    """Returns without the hint and with it, of the plays that finished in both arms of an instance."""
    arms = {(play.index, play.hinted): play.episode_return for play in finished}
    return [(arms[i, False], value) for (i, hinted), value in arms.items() if hinted and (i, False) in arms]


def _win_rate(finished: Sequence[PlayRecord], hinted: bool, win_return: float) -> float | None:
    wins = [won(play.episode_return, win_return) for play in finished if play.hinted == hinted]
    return sum(wins) / len(wins) if wins else None


def paired_regret(pairs: Sequence[tuple[float, float]]) -> Regret | None:
    """Regret over (return unhinted, return hinted) of plays on the same instance; None if no pair is left."""
    if not pairs:
        return None
    differences = [hinted - unhinted for unhinted, hinted in pairs]
    mean, error = mean_and_error(differences)
    return Regret(mean, error, len(pairs))


def clustered_mean(clusters: Iterable[Sequence[float]]) -> tuple[float, float | None]:
    """Mean over all values and its cluster-robust standard error; None under two clusters.

    Plays of one environment resemble each other, so they are no independent draws. With C clusters and residuals summed
    within each: SE = sqrt(C / (C − 1) · Σ_c (Σ_i x_ci − mean)²) / n (Liang and Zeger 1986, for a mean).
    """
    groups = [list(cluster) for cluster in clusters if cluster]
    n = sum(len(group) for group in groups)
    mean = math.fsum(value for group in groups for value in group) / n
    count = len(groups)
    if count < 2:
        return mean, None
    squares = math.fsum(math.fsum(value - mean for value in group) ** 2 for group in groups)
    return mean, math.sqrt(count / (count - 1) * squares) / n


def shrunken(regret: Regret) -> float:
    """The regret shrunk towards 0 by its noise (positive-part James-Stein): regret · max(0, 1 − error² / regret²)."""
    if regret.error is None or regret.mean == 0:
        return 0.0
    return regret.mean * max(0.0, 1 - (regret.error / regret.mean) ** 2)


def normalised_regret(regret: Regret, reward: Reward) -> float:
    """Floored at 0, in units of `regret_scale`, clipped to [0, 1]."""
    value = shrunken(regret) if reward.shrink else regret.mean
    return min(max(value, 0.0) / reward.regret_scale, 1.0)


def anchor(win_rate: float, reward: Reward) -> float:
    """Difficulty anchor: 1 inside [anchor_low, anchor_high], falling linearly to 0 over `anchor_ramp` on each side."""
    distance = max(reward.anchor_low - win_rate, win_rate - reward.anchor_high, 0.0)
    return max(0.0, 1 - distance / reward.anchor_ramp)


def learnable(win_rate: float) -> bool:
    """True for a win rate in [0.2, 0.8]."""
    return LEARNABLE[0] <= win_rate <= LEARNABLE[1]
