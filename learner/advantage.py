"""Advantages within a group and the weight of the designer's trajectories: pure numpy."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from spade.protocol import Group
from spade.returns import differ


def group_advantages(group: Group) -> NDArray[np.float64]:
    """Advantages of the group's trajectories by its role: shape (trajectories,), float64."""
    match group.role:
        case "agent":
            return agent_advantages(group.rewards)
        case "designer":
            return designer_advantages(group.rewards, group.baseline)


def agent_advantages(returns: Sequence[float]) -> NDArray[np.float64]:
    """(return - mean) / std over the group (std of the group itself, no Bessel correction): shape (plays,), float64.

    A group whose returns differ by rounding alone has advantages 0. GRPO (arXiv:2402.03300), section 4.1.2.
    """
    values = np.asarray(returns, dtype=np.float64)
    centred = values - values.mean()
    return centred / np.sqrt(np.mean(centred**2)) if differ(returns) else np.zeros_like(values)


def designer_advantages(rewards: Sequence[float], baseline: float | None) -> NDArray[np.float64]:
    """Reward - mean over the group, not divided by the std: shape (environments,), float64.

    A reward alone in its group is compared with `baseline`, the skill's running mean; 0 where there is none yet.
    """
    values = np.asarray(rewards, dtype=np.float64)
    reference = baseline if len(values) == 1 and baseline is not None else float(values.mean())
    return values - reference


def designer_weight(groups: Sequence[Group], most: float) -> float:
    """Agent trajectories / designer trajectories of the batch, at most `most`.

    1 where the batch holds one role alone: the weight balances roles, and there is nothing to balance.
    """
    agents = sum(len(group.trajectories) for group in groups if group.role == "agent")
    designers = sum(len(group.trajectories) for group in groups if group.role == "designer")
    return min(agents / designers, most) if agents and designers else 1.0
