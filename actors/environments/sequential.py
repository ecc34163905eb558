"""Test sequentially whether the share of won plays is at most `low` or at least `high`. Pure.

This is Wald's sequential probability ratio test (Annals of Mathematical Statistics 16, 1945). Plays go on until the
results are a hundred times as likely under one hypothesis as under the other. A hypothesis is a range of shares. Its
likelihood is the mean over two points of the range (Wald's weight functions): the end next to the other range, and the
middle between this end and the outer end (0 or 1). Because of the second point, clear cases are decided soon.
"""

from math import exp, inf, log
from typing import Literal

ERROR = 0.01
"""The largest probability of a wrong decision, of either kind. Includes decisions at BOUND."""
BOUND = 350
"""The largest number of plays. After them, the likelier of `low` and `high` decides. Both errors stay under ERROR if
high - low >= 0.15."""

Decision = Literal["reject", "admit", "go on"]


def decide(wins: int, plays: int, low: float, high: float) -> Decision:
    """Reject if the share of won plays is almost certainly over `low`, admit if it is almost certainly under `high`.

    Otherwise go on. At BOUND the likelier of the two decides. Requires 0 <= low < high <= 1.
    """
    losses = plays - wins
    if _is_likelier((high, (1 + high) / 2), low, wins, losses):
        return "reject"
    if _is_likelier((low / 2, low), high, wins, losses):
        return "admit"
    if plays < BOUND:
        return "go on"
    return "reject" if _compute_likelihood(high, wins, losses) > _compute_likelihood(low, wins, losses) else "admit"


def _is_likelier(shares: tuple[float, float], other: float, wins: int, losses: int) -> bool:
    """Return True if the mean likelihood of two shares is at least 1 / ERROR times the likelihood of another share."""
    logs = [_compute_likelihood(share, wins, losses) for share in shares]
    most = max(logs)
    if most == -inf:
        return False
    mean = most + log(sum(exp(each - most) for each in logs) / len(logs))
    return mean >= _compute_likelihood(other, wins, losses) - log(ERROR)


def _compute_likelihood(share: float, wins: int, losses: int) -> float:
    """Return the logarithm of a share's likelihood."""
    return _compute_power(share, wins) + _compute_power(1 - share, losses)


def _compute_power(base: float, exponent: int) -> float:
    if not exponent:
        return 0.0
    return exponent * log(base) if base > 0 else -inf
