"""Play the game of this container from its seed and the actions that a player sent."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from .playing import FOLDER, open_program

ACTIONS = Path("/var/game/actions.json")
"""The actions that the player sent, in their order."""


class GameState(NamedTuple):
    """The state of the game after some actions."""

    observation: str
    """The last observation."""
    over: bool
    """True if the episode is over, so that no action can follow."""
    won: bool
    """True if the program ended the episode with a winning reward."""


def replay(actions: Sequence[str]) -> GameState:
    """Play these actions. Ignores actions after the end of the episode. Raises RuntimeError if the program fails."""
    game = json.loads((FOLDER / "game.json").read_text(encoding="utf-8"))
    program = open_program(game["program"])
    episode = GameState(program.reset(game["seed"]), False, False)
    for action in actions:
        played = program.step(action)
        won = played.terminated and played.reward >= game["win_reward"]
        episode = GameState(played.observation, played.terminated or played.truncated, won)
        if episode.over:
            break
    return episode
