"""Compute an environment's figures from a window of plays, and the designer's reward for it. Pure."""

from replay.ledger.reward.figures import (
    ENDED,
    Bounds,
    Change,
    compute_change,
    compute_least_regret,
    compute_mean_return,
    compute_paired_regret,
    compute_win_rate,
    count_pairs,
    pair_returns,
)
from replay.ledger.reward.kinds import (
    KINDS,
    WindowFigures,
    compute_anchor,
    normalise_regret,
    regret_and_anchor,
    shrink_regret,
)
from replay.ledger.reward.scores import (
    FAST,
    add_to_averages,
    compute_window_reward,
    is_learnable,
    measure,
    score_of,
)

__all__ = [
    "ENDED", "FAST", "KINDS",
    "Bounds", "Change", "WindowFigures",
    "add_to_averages", "compute_anchor", "compute_change", "compute_least_regret", "compute_mean_return",
    "compute_paired_regret", "compute_win_rate", "compute_window_reward", "count_pairs", "is_learnable", "measure",
    "normalise_regret", "pair_returns", "regret_and_anchor", "score_of", "shrink_regret",
]  # fmt: skip
