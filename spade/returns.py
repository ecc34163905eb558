"""Compute an episode's return. One tolerance decides whether a return is a win, and whether two returns differ."""

from collections.abc import Sequence

TOLERANCE = 1e-6


def compute_episode_return(rewards: Sequence[float], terminated: bool) -> float:
    """Return the last step's reward clipped to [-1, 1] if the episode terminated, else 0."""
    return max(-1.0, min(1.0, rewards[-1])) if terminated and rewards else 0.0


def is_won(episode_return: float, win_return: float) -> bool:
    """Return True if the return is a win, even if it misses `win_return` by rounding (0.1 added ten times)."""
    return episode_return >= win_return - TOLERANCE


def has_different_returns(returns: Sequence[float]) -> bool:
    """Return True if two of the returns differ by more than rounding."""
    return len(returns) > 1 and max(returns) - min(returns) > TOLERANCE
