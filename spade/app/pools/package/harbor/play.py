"""The command `play`: send an action to the game and print its answer. Without an action, print the last answer."""

import fcntl
import json
import sys

from actors.sandbox.inside.program import ProgramError

from .episode import ACTIONS, replay


def play(action: str) -> None:
    """Print the observation after an action, and keep the action. Exits with one line if it cannot be played."""
    ACTIONS.parent.mkdir(exist_ok=True)
    with ACTIONS.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # two commands at once follow each other
        file.seek(0)
        actions: list[str] = json.loads(file.read() or "[]")
        before = replay(actions)
        if action and before.over:
            sys.exit("The episode is over.")
        try:
            after = replay([*actions, action]) if action else before
        except ProgramError as error:
            sys.exit(f"The game failed, and this action does not count: {error.reason}")
        if action:
            file.truncate(0)
            json.dump([*actions, action], file)
    print(after.observation)
    if after.over:
        print("The episode is over.")


if __name__ == "__main__":
    play(" ".join(sys.argv[1:]))
