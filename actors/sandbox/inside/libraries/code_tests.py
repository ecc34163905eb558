"""Problems of programming: the answer is a program, which must pass tests that stand in the environment's own text.

They are LiveCodeBench's, in its two forms: text on standard input and output, or the arguments and the result of a
method. The outputs that are expected are compared here, and the answer is executed elsewhere.
"""

import base64
import json
import pickle
import sys
import zlib
from collections.abc import Generator
from decimal import Decimal, InvalidOperation
from typing import Any

from ..execution import DIGITS
from ..judging import Execution, Judging, JudgingEnv
from .one_answer import OneAnswerEnv, verdict

SPARE_BYTES = 1 << 16
"""Room for spaces, and for the other forms of a number, in an output that may pass."""


class CodeTestsEnv(JudgingEnv, OneAnswerEnv):
    """A problem with its tests.

    `tests` and `hidden` are tests in either of LiveCodeBench's forms: JSON (a list of objects with `input` and
    `output`), or base64 of a compressed pickle of that text. `function`: the method's name; "" for standard input and
    output. The score is the share of tests that pass; at the first one that fails the others are not run if the score
    is not paid.
    """

    question = ""
    tests = "[]"
    hidden = "[]"
    function = ""
    test_s = 6.0
    reference = ""

    def pose(self, seed: int) -> str:
        """The question, whatever the seed. Raises ValueError where there are no tests."""
        self._tests = [*unpacked(self.tests), *unpacked(self.hidden)]
        if not self._tests:
            raise ValueError("the problem has no tests")
        return self.question

    def judge(self, action: str) -> Judging:
        """The verdict on a program: it ends the episode."""
        score = yield from self._scored(action.strip())
        return verdict(score, self.pays)

    def _scored(self, code: str) -> Generator[Execution, str | None, float]:
        """The share of tests that the program passes."""
        sys.set_int_max_str_digits(DIGITS)
        same = same_value if self.function else same_text
        passed = 0
        for test in self._tests:
            given, wanted = str(test["input"]), str(test["output"])
            output = yield Execution(code, self.function, given, self.test_s, 4 * len(wanted) + SPARE_BYTES)
            right = output is not None and same(output, wanted)
            passed += right
            if not right and self.pays == "win":
                return 0.0
        return passed / len(self._tests)

    def solution(self) -> list[str] | str:
        """The reference program, if there is one."""
        return [self.reference] if self.reference else "No program is given."


def unpacked(tests: str) -> list[dict[str, Any]]:
    """The tests of a text. What is not JSON is unpickled; this happens in an episode's own process alone."""
    text = tests
    if not tests.lstrip().startswith("["):
        text = pickle.loads(zlib.decompress(base64.b64decode(tests)))
    return list(json.loads(text))


def same_value(said: str, wanted: str) -> bool:
    """Equal as JSON."""
    try:
        return bool(json.loads(said) == json.loads(wanted))
    except (ValueError, RecursionError):
        return False


def same_text(said: str, wanted: str) -> bool:
    """Compare line by line without the spaces around; numbers are compared as numbers."""
    lines, others = ([line.strip() for line in text.strip().split("\n")] for text in (said, wanted))
    return len(lines) == len(others) and all(map(same_line, lines, others))


def same_line(line: str, other: str) -> bool:
    if line == other:
        return True
    try:
        return [Decimal(word) for word in line.split()] == [Decimal(word) for word in other.split()]
    except InvalidOperation:
        return False


def warm() -> None:
    """A problem, and the first thing that it wants executed."""
    problem = type("WarmEnv", (CodeTestsEnv,), {"tests": '[{"input": "2", "output": "4"}]'})()
    problem.pose(0)
    assert next(problem.judge("print(4)")).given == "2"
