"""Compute the advantages within a group and the weight of the designer's trajectories, in pure numpy."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spade.protocol import Group
from spade.returns import has_different_returns


def group_advantages(group: Group) -> NDArray[np.float64]:
    """Return the advantages of the group's trajectories by the group's role: shape (trajectories,), float64."""
    match group.role:
        case "agent":
            return compute_agent_advantages(group.rewards)
        case "designer":
            return compute_designer_advantages(group.rewards, group.baseline)


def compute_agent_advantages(returns: Sequence[float]) -> NDArray[np.float64]:
    """Return (return - mean) / std over the group: shape (plays,), float64. The std is without Bessel's correction.

    If the returns differ only by rounding, all advantages are 0. GRPO (arXiv:2402.03300), section 4.1.2.
    """
    values = np.asarray(returns, dtype=np.float64)
    centred = values - values.mean()
    return centred / np.sqrt(np.mean(centred**2)) if has_different_returns(returns) else np.zeros_like(values)


def compute_designer_advantages(rewards: Sequence[float], baseline: float | None) -> NDArray[np.float64]:
    """Return reward - mean over the group, not divided by the std: shape (environments,), float64.

    A single reward is compared with `baseline`, the skill's running mean. Without a baseline, its advantage is 0.
    """
    values = np.asarray(rewards, dtype=np.float64)
    reference = baseline if len(values) == 1 and baseline is not None else float(values.mean())
    return values - reference


def compute_designer_weight(groups: Sequence[Group], most: float) -> float:
    """Return agent trajectories / designer trajectories of the batch, at most `most`.

    Returns 1 if the batch holds a single role, since the weight balances the two roles.
    """
    agents = sum(len(group.trajectories) for group in groups if group.role == "agent")
    designers = sum(len(group.trajectories) for group in groups if group.role == "designer")
    return min(agents / designers, most) if agents and designers else 1.0
