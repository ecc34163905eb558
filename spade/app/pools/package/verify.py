"""Verify an episode: play the player's actions again, in a container that the player cannot reach."""

import json
from pathlib import Path

from .episode import ACTIONS, replay

REWARD = Path("/logs/verifier/reward.txt")
ACTIONS_BYTES = 1 << 24


def read_actions() -> list[str]:
    """Read the actions. Returns no actions if they cannot be read as a list of texts."""
    try:
        with ACTIONS.open("rb") as file:
            actions = json.loads(file.read(ACTIONS_BYTES))
    except (OSError, ValueError, RecursionError):
        return []
    return actions if isinstance(actions, list) and all(isinstance(action, str) for action in actions) else []


if __name__ == "__main__":
    REWARD.write_text("0\n")  # the reward if the program fails
    REWARD.write_text(f"{int(replay(read_actions()).won)}\n")
