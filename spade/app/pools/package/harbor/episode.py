"""Play an episode of the game again, from its seed and its actions. Nothing else of an episode is kept."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from actors.sandbox.inside.given import GIVEN
from actors.sandbox.inside.program import LoadedProgram, run_module

with suppress(ImportError):  # the image has numpy if the program names it
    import numpy

    GIVEN["np"] = numpy

FOLDER = Path(__file__).parent
ACTIONS = Path("/var/game/actions.json")
"""The actions that the player sent, in their order."""


class Episode(NamedTuple):
    """The state after some actions."""

    observation: str
    """The last observation."""
    over: bool
    """True if no action can follow."""
    won: bool
    """True if the last reward wins."""


def replay(actions: Sequence[str]) -> Episode:
    """Play these actions. Ignores actions after the end. Raises ProgramError if the program fails."""
    game: dict[str, Any] = json.loads((FOLDER / "game.json").read_text(encoding="utf-8"))
    kind, repairs = run_module((FOLDER / "program.txt").read_bytes().decode())
    program = LoadedProgram(kind, repairs, game["max_turns"], game["observation_bytes"])
    answer, over, won = program.reset(game["seed"]), False, False
    for turn, action in enumerate(actions, 1):
        if over:
            break
        if game["reads"] == "box" and action and "\\boxed{" not in action:
            action = f"\\boxed{{{action}}}"
        answer = program.step(action)
        reward, terminated = answer["reward"], bool(answer["terminated"])
        over = terminated or bool(answer["truncated"]) or turn == game["max_turns"]
        won = terminated and isinstance(reward, float) and reward >= game["win_reward"]
    return Episode(str(answer["text"]), over, won)
