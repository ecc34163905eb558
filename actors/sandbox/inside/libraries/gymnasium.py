"""Gymnasium: environments that can draw themselves as text."""

import re
from typing import Any

import gymnasium

from .one_answer import WINS

ACTIONS = {
    "FrozenLake": ("left", "down", "right", "up"),
    "CliffWalking": ("up", "right", "down", "left"),
}
"""Names of the actions, in their order, by the name of the environment without its version."""

_COLOURED = re.compile(r"\x1b\[[\d;]*m(.*?)\x1b\[0m", re.DOTALL)


class GymnasiumTextEnv:
    """An environment of discrete actions. It is won if it ends with rewards of at least `least_total` in all."""

    environment = ""
    parameters: dict[str, Any] = {}  # noqa: RUF012 (a program replaces it and changes it never)
    actions: tuple[str, ...] = ()
    """The names of the actions in their order; without them those of ACTIONS, else numbers."""
    least_total = 1.0

    def reset(self, seed: int) -> tuple[str, dict[str, object]]:
        """The first state and the actions."""
        self._world = gymnasium.make(self.environment, render_mode="ansi", **self.parameters)
        count = getattr(self._world.action_space, "n", 0)
        name = re.sub(r"\d*x?\d*-v\d+$", "", self.environment)
        self._names = self.actions or ACTIONS.get(name) or tuple(map(str, range(count)))
        if len(self._names) != count:
            raise ValueError(f"{self.environment} has {count} discrete actions, and {len(self._names)} names of them")
        self._total = 0.0
        self._world.reset(seed=seed % 2**32)
        return self._drawn(), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, object]]:
        """The next state. An action that there is not leads nowhere."""
        name = action.strip().lower()
        if name not in self._names:
            return f"There is no action {action.strip()[:40]!r}.\n{self._drawn()}", 0.0, False, False, {}
        _, reward, terminated, truncated, _ = self._world.step(self._names.index(name))
        self._total += float(reward)
        won = terminated and self._total >= self.least_total - (1 - WINS)
        return self._drawn(), float(won), bool(terminated), bool(truncated), {}

    def _drawn(self) -> str:
        picture = _COLOURED.sub(r"[\1]", str(self._world.render())).strip()
        return f"{picture}\nActions: {' '.join(self._names)}"


def warm() -> None:
    """Both environments that have names."""
    for name in ("FrozenLake-v1", "CliffWalking-v1"):
        type("WarmEnv", (GymnasiumTextEnv,), {"environment": name})().reset(0)
