"""RLVE: 400 procedural problems with verifiers (the distribution rlve-gym, whose package is named `Gym`)."""

import copy
import random
from typing import Any

import numpy as np

from . import formulas
from .one_answer import OneAnswerEnv, graded
from .stand_ins import standing_in

with standing_in("torch"):  # it is there to be seeded
    from Gym.environments import identifier2environment as PROBLEMS  # noqa: N812
    from Gym.parameter_controllers import identifier2controller as CONTROLLERS  # noqa: N812

MARKS = "<answer>", "</answer>"


class RlveEnv(OneAnswerEnv):
    """A problem, with any of the parameters that its controller gives after `level` updates, or with `parameters`.

    The library's own `generator` is not called: it takes a thread for its time limit, and there are none.
    """

    problem = ""
    level = 0
    parameters: dict[str, Any] | None = None

    def pose(self, seed: int) -> str:
        """The problem's text."""
        if self.problem not in PROBLEMS:
            raise ValueError(f"RLVE has no problem {self.problem!r}")
        draw = random.Random(seed)
        self._problem = PROBLEMS[self.problem](answer_markers=MARKS)
        self._problem.seed = seed
        self._problem.parameter = copy.deepcopy(self.parameters or draw.choice(self._drawn()))
        random.seed(seed)
        np.random.seed(seed % 2**32)
        self._problem._generate()
        return str(self._problem.prompt_generator())

    def _drawn(self) -> list[dict[str, Any]]:
        controller = CONTROLLERS[self.problem]()
        for _ in range(self.level):
            controller.update()
        return list(controller.get_parameter_list())

    def score(self, answer: str) -> float:
        """The problem's own score; 1 where it counts as solved. The library counts an error of its scorer as wrong."""
        verdict = self._problem.verifier(answer.join(MARKS))
        return 1.0 if verdict["accuracy"] else graded(min(float(verdict["reward"]), 0.999))

    def solution(self) -> list[str] | str:
        """The reference answer; some problems have none, or one that they do not count."""
        answer = str(self._problem.parameter.get("reference_answer"))
        right = self._problem.verifier(answer.join(MARKS))["accuracy"]
        return [answer] if right else "No answer is given."


def programs() -> dict[str, dict[str, Any]]:
    """The attributes of a program of each problem."""
    return {name: {"problem": name, "level": 0} for name in PROBLEMS}


def warm() -> None:
    """One instance of each problem; two of their scorers parse an answer by sympy."""
    formulas.hold()
    for problem in PROBLEMS:
        type("WarmEnv", (RlveEnv,), {"problem": problem})().pose(0)
