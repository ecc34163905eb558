"""Environments of one question and one answer."""

from typing import Literal

WINS = 1.0 - 1e-6


class OneAnswerEnv:
    """Subclasses pose a question and score an answer; the score is in [-1, 1], and 1 wins."""

    pays: Literal["win", "score"] = "win"
    """"win" pays 1 for a right answer and 0 for any other; "score" pays the score."""

    def pose(self, seed: int) -> str:
        """The question of this instance."""
        raise NotImplementedError

    def score(self, answer: str) -> float:
        """The score of an answer."""
        raise NotImplementedError

    def reset(self, seed: int) -> tuple[str, dict[str, object]]:
        """The question, and {}."""
        return self.pose(seed), {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, object]]:
        """The verdict: it ends the episode."""
        score = self.score(action.strip())
        right = score >= WINS
        return "Correct." if right else "Wrong.", score if self.pays == "score" else float(right), True, False, {}


def graded(score: float) -> float:
    """A library's score within [-1, 1]; one that is no number is worth nothing."""
    return max(-1.0, min(1.0, score)) if score == score else 0.0
