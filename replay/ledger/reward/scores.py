"""Score a window when it closes: its figures and its designer's reward. Pure."""

import math
from collections.abc import Sequence

from replay.ledger.records import MovingAverages, PlayRecord, Score
from replay.ledger.reward.figures import (
    ENDED,
    Bounds,
    compute_change,
    compute_found_regret,
    compute_least_regret,
    compute_mean_return,
    compute_paired_regret,
    compute_win_rate,
    count_pairs,
    find_return_bounds,
    pair_returns,
)
from replay.ledger.reward.kinds import KINDS, WindowFigures
from spade.config import Config, Reward

LEARNABLE = (0.2, 0.8)
FAST = 0.2  # weight of the newest window, so that the fast average shows about the last five, fewer than a round has


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
    win_rate, win_rate_hinted = (compute_win_rate(finished, hinted, config.play.win_return) for hinted in (False, True))
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


def measure(
    plays: Sequence[PlayRecord], score: Score, similarity: float | None, win_return: float
) -> WindowFigures | None:
    """Return the figures of a window with their bounds. Uses the win rate, luck and slow average of its score.

    Returns None without an unhinted play that ended. If the window was scored before voids counted (`score.luck` is
    None), void plays are left out.
    """
    if score.luck is None:
        plays = [play for play in plays if play.state == "finished"]
    unhinted = [play for play in plays if not play.hinted and play.state in ENDED]
    if not unhinted:
        return None
    returns = [find_return_bounds(play) for play in unhinted]
    voids = sum(play.state == "void" for play in unhinted)
    wins = round((score.win_rate or 0.0) * (len(unhinted) - voids))
    luck, pairs = score.luck or 0, count_pairs(plays, win_return)
    cut = pairs.count_cut_losses(len(unhinted))
    return WindowFigures(
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


def compute_window_reward(window: WindowFigures | None, quarantined: bool, settings: Reward) -> float | None:
    """Return the designer's reward for a window. If a figure that it needs was not measured, return None."""
    if quarantined:
        return 0.0
    return None if window is None else KINDS[settings.kind](window, settings)


def add_to_averages(before: MovingAverages | None, mean: float, settings: Reward) -> MovingAverages:
    """Add the mean return of one window to the averages of a skill, by the weights FAST and `reward.slow`.

    The first window sets both averages.
    """
    if before is None:
        return MovingAverages(mean, mean)
    fast = before.fast + FAST * (mean - before.fast)
    slow = before.slow + settings.slow * (mean - before.slow)
    return MovingAverages(fast, slow, before.windows + 1)


def is_learnable(win_rate: float) -> bool:
    """Return True for a win rate in [0.2, 0.8]."""
    return LEARNABLE[0] <= win_rate <= LEARNABLE[1]
