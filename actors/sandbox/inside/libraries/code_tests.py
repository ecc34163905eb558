"""Problems of programming: the answer is a program, which is run on tests that stand in the environment's own text.

It is LiveCodeBench's way to test, in its two forms: a whole program between standard input and output, or a method of a
class `Solution`. The answer runs in this process, as the tests do: what it is held by are the walls of the sandbox.
"""

import base64
import bisect
import collections
import contextlib
import copy
import datetime
import functools
import heapq
import io
import itertools
import json
import math
import operator
import pickle
import random
import re
import signal
import statistics
import string
import sys
import threading
import typing
import zlib
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

from .one_answer import OneAnswerEnv

OUTPUT_BYTES = 16 << 20
RECURSION = 50_000
PRELUDE = (typing, string, re, collections, heapq, bisect, copy, math, random, statistics, itertools, functools)
"""Modules whose names an answer takes for granted, the later ones before the earlier ones, as well as the modules."""


class OvertimeError(BaseException):
    """A test took too long. Not an Exception, so that an answer does not take it for one of its own."""


class SpilledError(Exception):
    """An answer printed too much."""


class Spill(io.BytesIO):
    """Standard output of bounded length."""

    def write(self, data: Any) -> int:
        """Raises SpilledError beyond OUTPUT_BYTES."""
        if self.tell() + len(data) > OUTPUT_BYTES:
            raise SpilledError
        return super().write(data)


class CodeTestsEnv(OneAnswerEnv):
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

    def score(self, answer: str) -> float:
        """The share of tests that the program passes."""
        passed = 0
        for test in self._tests:
            right = self._passes(answer, str(test["input"]), str(test["output"]))
            passed += right
            if not right and self.pays == "win":
                return 0.0
        return passed / len(self._tests)

    def _passes(self, answer: str, given: str, wanted: str) -> bool:
        """One test. Whatever the answer raises, it fails by it."""
        try:
            with limited(self.test_s), serial_threads():
                if self.function:
                    return called(answer, self.function, given, wanted)
                return same_text(printed(answer, given), wanted)
        except BaseException:
            return False

    def solution(self) -> list[str] | str:
        """The reference program, if there is one."""
        return [self.reference] if self.reference else "No program is given."


def unpacked(tests: str) -> list[dict[str, Any]]:
    """The tests of a text. What is not JSON is unpickled; this happens in an episode's own process alone."""
    text = tests
    if not tests.lstrip().startswith("["):
        text = pickle.loads(zlib.decompress(base64.b64decode(tests)))
    return list(json.loads(text))


def names(module: str) -> dict[str, Any]:
    """The namespace in which an answer runs."""
    found: dict[str, Any] = {}
    for each in PRELUDE:
        found |= {name: getattr(each, name) for name in getattr(each, "__all__", dir(each)) if not name.startswith("_")}
    found |= {each.__name__: each for each in (*PRELUDE, datetime, io, json, operator, sys)}
    return found | {"__name__": module}


def printed(answer: str, given: str) -> str:
    """The text that the program writes to standard output for that input; an exit is the end of it, no failure."""
    before = sys.stdin, sys.stdout
    spill = Spill()
    sys.stdin = io.TextIOWrapper(io.BytesIO(given.encode()))
    sys.stdout = io.TextIOWrapper(spill)
    kept = sys.stdout
    try:
        own = names("__main__")
        own["open"] = lambda *_, **__: sys.stdin  # `open(0)` is common, and no file can be opened
        with contextlib.suppress(SystemExit):
            exec(compile(answer, "answer.py", "exec"), own)
        kept.flush()
        return spill.getvalue().decode()
    finally:
        sys.stdin, sys.stdout = before


def called(answer: str, function: str, given: str, wanted: str) -> bool:
    """One call: each line of the input is an argument as JSON; so is the output."""
    own = names("solution")
    exec(compile(answer, "answer.py", "exec"), own)
    method: Callable[..., object] = getattr(own["Solution"](), function) if "Solution" in own else own[function]
    result = method(*(json.loads(line) for line in given.splitlines()))
    return bool(plain(result) == json.loads(wanted))


def plain(value: object) -> object:
    """A tuple as the list that JSON has for it."""
    return list(value) if isinstance(value, tuple) else value


def same_text(said: str, wanted: str) -> bool:
    """Equal line by line without the spaces around; numbers are compared as numbers."""
    lines, others = ([line.strip() for line in text.strip().splitlines()] for text in (said, wanted))
    return len(lines) == len(others) and all(map(same_line, lines, others))


def same_line(line: str, other: str) -> bool:
    if line == other:
        return True
    try:
        return [Decimal(word) for word in line.split()] == [Decimal(word) for word in other.split()]
    except InvalidOperation:
        return False


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises OvertimeError in the block after so many seconds, and again every tenth of one while it is caught.

    A block that holds signals off meets the deadline of the step.
    """

    def over(*_: object) -> None:
        raise OvertimeError

    before = signal.signal(signal.SIGALRM, over), sys.getrecursionlimit()
    sys.setrecursionlimit(RECURSION)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, 0.1)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before[0])
        sys.setrecursionlimit(before[1])


@contextlib.contextmanager
def serial_threads() -> Iterator[None]:
    """Run a thread where it is started, since there are none: programs use one for its larger stack."""
    kept = threading.Thread.start, threading.Thread.join
    threading.Thread.start = threading.Thread.run  # type: ignore[method-assign]
    threading.Thread.join = lambda *_: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        threading.Thread.start, threading.Thread.join = kept  # type: ignore[method-assign]


def warm() -> None:
    """A program that is right."""
    given = {"tests": '[{"input": "2", "output": "4"}]'}
    problem = type("WarmEnv", (CodeTestsEnv,), given)()
    problem.pose(0)
    assert problem.score("print(int(input()) ** 2)") == 1
