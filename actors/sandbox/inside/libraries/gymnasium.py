"""Gymnasium: environments that can draw themselves as text."""

import functools
import re
from typing import Any

import gymnasium
from gymnasium.envs.toy_text import frozen_lake

from .one_answer import WINS

ACTIONS = {
    "FrozenLake": ("left", "down", "right", "up"),
    "CliffWalking": ("up", "right", "down", "left"),
}
"""For each environment, without its version, the names of the actions in their order."""
LEAST_TOTAL = {"CliffWalking": -99.0}
"""The smallest total reward of a win, if it is not 1. In CliffWalking, -99 means the goal without a fall."""

RANDOM_MAP = frozen_lake.generate_random_map
_COLOURED = re.compile(r"\x1b\[[\d;]*m(.*?)\x1b\[0m", re.DOTALL)


class GymnasiumTextEnv:
    """An environment of discrete actions. It is won if it ends with a total reward of at least `least_total`."""

    environment = ""
    parameters: dict[str, Any] = {}  # noqa: RUF012 (programs replace this value and never mutate it)
    actions: tuple[str, ...] = ()
    """The names of the actions in their order. The default is the names in ACTIONS, or else numbers."""
    least_total = 1.0

    def reset(self, seed: int) -> tuple[str, dict[str, object]]:
        """Return the first state and the actions."""
        # FrozenLake without a named map draws a map when it is made, before it gets its seed.
        frozen_lake.generate_random_map = functools.partial(RANDOM_MAP, seed=seed % 2**32)
        self._world = gymnasium.make(self.environment, render_mode="ansi", **self.parameters)
        count = getattr(self._world.action_space, "n", 0)
        self._names = self.actions or ACTIONS.get(find_kind(self.environment)) or tuple(map(str, range(count)))
        if len(self._names) != count:
            raise ValueError(f"{self.environment} has {count} discrete actions, and {len(self._names)} names of them")
        self._total = 0.0
        self._world.reset(seed=seed % 2**32)
        return self._draw_picture(), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, object]]:
        """Take an action and return the next state. An unknown action changes nothing."""
        name = action.strip().lower()
        if name not in self._names:
            return f"There is no action {action.strip()[:40]!r}.\n{self._draw_picture()}", 0.0, False, False, {}
        _, reward, terminated, truncated, _ = self._world.step(self._names.index(name))
        self._total += float(reward)
        won = terminated and self._total >= self.least_total - (1 - WINS)
        return self._draw_picture(), float(won), bool(terminated), bool(truncated), {}

    def _draw_picture(self) -> str:
        picture = _COLOURED.sub(r"[\1]", str(self._world.render())).strip()
        return f"{picture}\nActions: {' '.join(self._names)}"


def find_kind(environment: str) -> str:
    """Return the name of an environment without its size and version."""
    return re.sub(r"\d*x?\d*-v\d+$", "", environment)


def programs() -> dict[str, dict[str, Any]]:
    """Return the program attributes of each environment with named actions."""
    least = {name: {"least_total": total} for name, total in LEAST_TOTAL.items()}
    named = [name for name in gymnasium.registry if find_kind(name) in ACTIONS]
    return {name: {"environment": name} | least.get(find_kind(name), {}) for name in named}


def warm() -> None:
    """Reset both environments with named actions."""
    for name in ("FrozenLake-v1", "CliffWalking-v1"):
        type("WarmEnv", (GymnasiumTextEnv,), {"environment": name})().reset(0)
