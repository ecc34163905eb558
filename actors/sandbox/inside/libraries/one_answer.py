"""Environments of one question and one answer."""

import random
from typing import Literal

WINS = 1.0 - 1e-6
Pays = Literal["win", "score"]
DRAWS = 10
"""The largest number of seeds that are tried until the generator finds an instance. RLVE itself tries again, too."""


class OneAnswerEnv:
    """The base of environments that pose a question and score an answer. The score is in [-1, 1], and 1 wins."""

    pays: Pays = "win"
    """"win" pays 1 for a right answer and 0 for any other; "score" pays the score."""

    def pose(self, seed: int) -> str:
        """Return the question of an instance."""
        raise NotImplementedError

    def score(self, answer: str) -> float:
        """Return the score of an answer."""
        raise NotImplementedError

    def reset(self, seed: int) -> tuple[str, dict[str, object]]:
        """Return the question and {}.

        Tries `seed` first. If the generator fails, tries further seeds that are derived from `seed`. After DRAWS
        failures, raises the last error.
        """
        draw = random.Random(seed)
        for _ in range(DRAWS - 1):
            try:
                return self.pose(seed), {}
            except Exception:  # some generators raise errors of their own if a seed gives no instance
                seed = draw.getrandbits(48)
        return self.pose(seed), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, object]]:
        """Return the verdict on an answer. It ends the episode."""
        return make_verdict(self.score(action.strip()), self.pays)


def make_verdict(score: float, pays: Pays) -> tuple[str, float, bool, bool, dict[str, object]]:
    """Return the last step of an episode, for an answer with this score."""
    right = score >= WINS
    return "Correct." if right else "Wrong.", score if pays == "score" else float(right), True, False, {}


def clip_score(score: float) -> float:
    """Clip a library's score to [-1, 1]. NaN becomes 0."""
    return max(-1.0, min(1.0, score)) if score == score else 0.0
