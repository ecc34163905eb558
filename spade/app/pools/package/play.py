"""The command `play`: send an action to the game and print its answer. Without an action, print the last answer."""

import fcntl
import json
import os
import sys

from .episode import ACTIONS, replay

OVER = "The episode is over."


def play(action: str | None) -> None:
    """Print the observation after an action, and append the action to the file. Exits with one line if this fails.

    The player may fill the disk or limit this process. So the file of actions is replaced whole or not at all.
    """
    ACTIONS.parent.mkdir(parents=True, exist_ok=True)
    # If two commands run at the same time, the second one waits.
    fcntl.flock(os.open(ACTIONS.parent, os.O_RDONLY), fcntl.LOCK_EX)
    actions: list[str] = json.loads(ACTIONS.read_text(encoding="utf-8")) if ACTIONS.exists() else []
    episode = replay(actions)
    if action is not None:
        if episode.over:
            sys.exit(OVER)
        actions.append(action)
        part = ACTIONS.with_suffix(".part")
        try:
            episode = replay(actions)
            part.write_text(json.dumps(actions), encoding="utf-8")
        except (RuntimeError, OSError) as error:
            sys.exit(f"The game failed, and this action does not count: {error}")
        part.replace(ACTIONS)
    print(episode.observation)
    if episode.over:
        print(OVER)


if __name__ == "__main__":
    play(" ".join(sys.argv[1:]) if len(sys.argv) > 1 else None)
