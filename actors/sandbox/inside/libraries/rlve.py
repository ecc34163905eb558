"""RLVE: 400 procedural problems with verifiers (the distribution rlve-gym, package `Gym`)."""

import copy
import random
from typing import Any

import numpy as np

from . import formulas
from .one_answer import OneAnswerEnv, clip_score
from .stand_ins import put_stand_ins

with put_stand_ins("torch"):  # RLVE only seeds it
    from Gym.environments import identifier2environment as PROBLEMS  # noqa: N812
    from Gym.parameter_controllers import identifier2controller as CONTROLLERS  # noqa: N812

MARKS = "<answer>", "</answer>"


class RlveEnv(OneAnswerEnv):
    """A problem of RLVE with fixed `parameters`.

    Without `parameters`, each instance draws them from the list that the problem's controller makes after `level`
    updates.

    The library's own `generator` is not called, since its time limit needs a thread, and a child cannot start threads.
    """

    problem = ""
    level = 0
    parameters: dict[str, Any] | None = None

    def pose(self, seed: int) -> str:
        """Return the problem's text."""
        if self.problem not in PROBLEMS:
            raise ValueError(f"RLVE has no problem {self.problem!r}")
        draw = random.Random(seed)
        self._problem = PROBLEMS[self.problem](answer_markers=MARKS)
        self._problem.seed = seed
        self._problem.parameter = copy.deepcopy(self.parameters or draw.choice(self._draw_parameters()))
        random.seed(seed)
        np.random.seed(seed % 2**32)
        self._problem._generate()
        return str(self._problem.prompt_generator())

    def _draw_parameters(self) -> list[dict[str, Any]]:
        controller = CONTROLLERS[self.problem]()
        for _ in range(self.level):
            controller.update()
        return list(controller.get_parameter_list())

    def score(self, answer: str) -> float:
        """Return the problem's own score, or 1 if it counts as solved.

        The library itself counts an error of its scorer as a wrong answer.
        """
        verdict = self._problem.verifier(answer.join(MARKS))
        return 1.0 if verdict["accuracy"] else clip_score(min(float(verdict["reward"]), 0.999))

    def solution(self) -> list[str] | str:
        """Return the reference answer. Some problems lack it, or do not accept their own answer."""
        answer = str(self._problem.parameter.get("reference_answer"))
        right = self._problem.verifier(answer.join(MARKS))["accuracy"]
        return [answer] if right else "No answer is given."


def programs() -> dict[str, dict[str, Any]]:
    """Return the program attributes of each problem."""
    return {name: {"problem": name, "level": 0} for name in PROBLEMS}


def warm() -> None:
    """Make one instance of each problem. Restrict sympy's parser first, since two scorers parse an answer with it."""
    formulas.hold()
    for problem in PROBLEMS:
        type("WarmEnv", (RlveEnv,), {"problem": problem})().pose(0)
