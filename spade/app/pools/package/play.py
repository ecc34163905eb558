"""The command `play`: send an action to the game and print its answer. Without an action, print the last answer."""

import fcntl
import json
import sys

from .episode import ACTIONS, replay

OVER = "The episode is over."


def play(action: str | None) -> None:
    """Print the observation after an action, and keep the action. Exits with one line if it cannot be played."""
    ACTIONS.parent.mkdir(parents=True, exist_ok=True)
    with ACTIONS.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # two commands at once follow each other
        file.seek(0)
        actions: list[str] = json.loads(file.read() or "[]")
        episode = replay(actions)
        if action is not None:
            if episode.over:
                sys.exit(OVER)
            actions.append(action)
            try:
                episode = replay(actions)
            except RuntimeError as error:
                sys.exit(f"The game failed, and this action does not count: {error}")
            file.truncate(0)
            json.dump(actions, file)
    print(episode.observation)
    if episode.over:
        print(OVER)


if __name__ == "__main__":
    play(" ".join(sys.argv[1:]) if len(sys.argv) > 1 else None)
