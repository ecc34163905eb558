"""Environments of one question and one answer."""

import random
from typing import Literal

WINS = 1.0 - 1e-6
Pays = Literal["win", "score"]
DRAWS = 10
"""Draws after which a generator that finds no instance has failed; RLVE draws again as well."""


class OneAnswerEnv:
    """Subclasses pose a question and score an answer; the score is in [-1, 1], and 1 wins."""

    pays: Pays = "win"
    """"win" pays 1 for a right answer and 0 for any other; "score" pays the score."""

    def pose(self, seed: int) -> str:
        """The question of this instance."""
        raise NotImplementedError

    def score(self, answer: str) -> float:
        """The score of an answer."""
        raise NotImplementedError

    def reset(self, seed: int) -> tuple[str, dict[str, object]]:
        """The question, and {}. The first draw is of the seed itself. Raises what the last draw raised."""
        draw = random.Random(seed)
        for _ in range(DRAWS - 1):
            try:
                return self.pose(seed), {}
            except Exception:  # some generators raise where a draw has no instance, each an error of its own
                seed = draw.getrandbits(48)
        return self.pose(seed), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, object]]:
        """The verdict: it ends the episode."""
        return verdict(self.score(action.strip()), self.pays)


def verdict(score: float, pays: Pays) -> tuple[str, float, bool, bool, dict[str, object]]:
    """The last step of an episode whose answer has this score."""
    right = score >= WINS
    return "Correct." if right else "Wrong.", score if pays == "score" else float(right), True, False, {}


def graded(score: float) -> float:
    """A library's score within [-1, 1]; one that is no number is worth nothing."""
    return max(-1.0, min(1.0, score)) if score == score else 0.0
