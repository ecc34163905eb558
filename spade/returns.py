"""Returns are sums of floats: what counts as a win, and which of them are the same. The one tolerance for both."""

from collections.abc import Sequence

TOLERANCE = 1e-6


def won(episode_return: float, win_return: float) -> bool:
    """True where the return is a win; one that misses `win_return` by rounding (0.1 added ten times) is one."""
    return episode_return >= win_return - TOLERANCE


def differ(returns: Sequence[float]) -> bool:
    """True where two of the returns differ by more than rounding."""
    return len(returns) > 1 and max(returns) - min(returns) > TOLERANCE
