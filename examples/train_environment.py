"""Train nano on an environment that this file defines. `python examples/train_environment.py FOLDER 4`

On two cores, four learner steps raised its win rate from 0.71 to 1.00. A policy that wins every play has nothing to
learn.
"""

import inspect
import random
import sys
from pathlib import Path

import spade


class SearchEnv:
    """A number to find. Programs of this form are played in a sandbox, and see nothing of this file."""

    def __init__(self, max_turns: int = 4) -> None:
        self.max_turns = max_turns
        self.reset(0)

    def reset(self, seed: int) -> tuple[str, dict]:
        self.goal, self.turn = random.Random(seed).randrange(1, 16), 0
        return "Find the number. Actions: 1..15", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict]:
        """Return the next observation, the reward, whether the episode ended, whether it was cut off, and facts."""
        self.turn += 1
        over = self.turn >= self.max_turns
        if not action.isdigit() or not 1 <= int(action) <= 15:
            return "Unknown action. Actions: 1..15", 0.0, over, False, {}
        gap = int(action) - self.goal
        if gap == 0:
            return "Well done.", 1.0, True, False, {}
        word = "Higher" if gap < 0 else "Lower"
        return f"{word} than {action}. Actions: 1..15", 0.4 / (1 + abs(gap)), over, False, {}

    def solution(self) -> list[str]:
        return [str(self.goal)]

    def close(self) -> None:
        pass


folder = Path(sys.argv[1])
pool = folder / "pool"  # a folder of programs
pool.mkdir(parents=True, exist_ok=True)
(pool / "search.py").write_text(f"import random\n\n\n{inspect.getsource(SearchEnv)}")
source = f"folder:{pool}"
settings = {"pool.source": source, "evaluation.suite": source, "evaluation.plays": 48, "evaluation.every_steps": 4}
limits = {"steps": int(sys.argv[2]), "duration": "10m"}
with spade.start("nano-fixed-pool", run=folder / "run", settings=settings, **limits) as run:
    run.wait()
for each in run.journal.evaluations:
    print(f"after step {each.step}: won {each.win_rate:.2f} ± {each.error:.2f} of {each.plays} plays")
