"""Programming problems: the answer is a program that must pass the tests in the environment's own text.

The tests are LiveCodeBench's, in its two forms: text on standard input and output, or the arguments and the result of a
method. The answer is executed in another process, and its outputs are compared here.
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
from .one_answer import OneAnswerEnv, make_verdict

SPARE_BYTES = 1 << 16
"""An output may have four times the expected characters, plus this many bytes for spaces and other forms of numbers."""


class CodeTestsEnv(JudgingEnv, OneAnswerEnv):
    """A problem with its tests.

    `tests` and `hidden` are tests in either of LiveCodeBench's encodings: JSON (a list of objects with `input` and
    `output`), or base64 of a compressed pickle of that text. `function` is the method's name, or "" for standard input
    and output. The score is the share of tests that pass. If `pays` is "win", no test runs after the first failed one.
    """

    question = ""
    tests = "[]"
    hidden = "[]"
    function = ""
    test_s = 6.0
    reference = ""

    def pose(self, seed: int) -> str:
        """Return the question, the same for all seeds. Raises ValueError without tests."""
        self._tests = [*unpack_tests(self.tests), *unpack_tests(self.hidden)]
        if not self._tests:
            raise ValueError("the problem has no tests")
        return self.question

    def judge(self, action: str) -> Judging:
        """Judge a program by the tests. The verdict ends the episode."""
        score = yield from self._score_code(action.strip())
        return make_verdict(score, self.pays)

    def _score_code(self, code: str) -> Generator[Execution, str | None, float]:
        """Return the share of tests that the program passes. Yields the executions of the tests."""
        sys.set_int_max_str_digits(DIGITS)
        same = is_same_value if self.function else is_same_text
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
        """Return the reference program, if there is one."""
        return [self.reference] if self.reference else "No program is given."


def unpack_tests(tests: str) -> list[dict[str, Any]]:
    """Decode tests. A text that is not JSON is unpickled, which happens only in an episode's own process."""
    text = tests
    if not tests.lstrip().startswith("["):
        text = pickle.loads(zlib.decompress(base64.b64decode(tests)))
    return list(json.loads(text))


def is_same_value(said: str, wanted: str) -> bool:
    """Return True if two texts are equal as JSON."""
    try:
        return bool(json.loads(said) == json.loads(wanted))
    except (ValueError, RecursionError):
        return False


def is_same_text(said: str, wanted: str) -> bool:
    """Return True if two texts are equal line by line, without surrounding spaces. Numbers are compared as numbers."""
    lines, others = ([line.strip() for line in text.strip().split("\n")] for text in (said, wanted))
    return len(lines) == len(others) and all(map(is_same_line, lines, others))


def is_same_line(line: str, other: str) -> bool:
    if line == other:
        return True
    try:
        return [Decimal(word) for word in line.split()] == [Decimal(word) for word in other.split()]
    except InvalidOperation:
        return False


def warm() -> None:
    """Judge one answer to a small problem up to its first execution, so that all code is loaded."""
    problem = type("WarmEnv", (CodeTestsEnv,), {"tests": '[{"input": "2", "output": "4"}]'})()
    problem.pose(0)
    assert next(problem.judge("print(4)")).given == "2"
