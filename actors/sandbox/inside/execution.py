"""Execute a player's code on one input, in a process that does not know the expected output.

This follows LiveCodeBench in its two forms: a whole program with standard input and output, or a method of a class
`Solution`. The code may have changed this process, so only the output is used.
"""

import bisect
import builtins
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
import random
import re
import statistics
import string
import sys
import threading
import typing
from typing import Any

from .messages import EXECUTION_BYTES

RECURSION = 50_000
DIGITS = 50_000
"""The largest number of digits of a number that is read or printed, as in LiveCodeBench's own harness. Python's default
is 4,300."""
MODULES = (
    string, re, datetime, collections, heapq, bisect, copy, math, random, statistics, itertools, functools, operator,
    io, sys, json,
)  # fmt: skip
"""Modules that code may use without importing them."""
STARRED = (*MODULES, builtins, typing)
"""Modules whose names are imported by `*`, in the order of LiveCodeBench's own harness.

A later module replaces the names of an earlier one. So the builtins come after `math`, `operator` and `re`, which have
other functions of the same names, such as `pow` and `compile`.
"""


class SpilledError(Exception):
    """The code printed too much."""


class Spill(io.BytesIO):
    """Standard output of bounded length."""

    def write(self, data: Any) -> int:
        """Write the data. Raises SpilledError beyond EXECUTION_BYTES."""
        if self.tell() + len(data) > EXECUTION_BYTES:
            raise SpilledError
        return super().write(data)


def run_code(code: str, function: str, given: str) -> str | None:
    """Return the result of the code for the input, or None if it raises. Afterwards the process must not be reused."""
    sys.setrecursionlimit(RECURSION)
    sys.set_int_max_str_digits(DIGITS)
    threading.Thread.start = run_thread  # type: ignore[assignment, method-assign]
    threading.Thread.join = lambda *_, **__: None  # type: ignore[method-assign]
    try:
        return call_function(code, function, given) if function else run_program(code, given)
    except BaseException:
        return None


def run_thread(thread: threading.Thread) -> None:
    """Run a thread to its end. An error ends only the thread.

    Programs often start a thread to get a larger stack, but this process cannot start threads.
    """
    with contextlib.suppress(Exception, SystemExit):
        thread.run()


def run_program(code: str, given: str) -> str:
    """Run a whole program and return its standard output for an input. An exit ends the program without failure."""
    spill = Spill()
    sys.stdin = io.TextIOWrapper(io.BytesIO(given.encode()))
    sys.stdout = kept = io.TextIOWrapper(spill)
    # Programs often call `open(0)`, but a child cannot open files. The namespace takes `open` from these modules.
    builtins.open = io.open = lambda *_, **__: sys.stdin  # type: ignore[assignment]
    own = make_namespace("__main__")
    with contextlib.suppress(SystemExit):
        exec(compile(code, "answer.py", "exec"), own)
    kept.flush()
    return spill.getvalue().decode()


def call_function(code: str, function: str, given: str) -> str:
    """Call a function or method and return its result as JSON. Each line of the input is an argument as JSON."""
    own = make_namespace("solution")
    exec(compile(code, "answer.py", "exec"), own)
    method = getattr(own["Solution"](), function) if "Solution" in own else own[function]
    result = method(*(json.loads(line) for line in given.split("\n") if line.strip()))
    return json.dumps(require_json(list(result) if isinstance(result, tuple) else result))


def require_json(value: Any) -> object:
    """Return the value if JSON carries it unchanged, and a scalar of numpy as a number. Raises TypeError for others.

    So a tuple inside a list is not accepted in place of a list, as in LiveCodeBench.
    """
    if isinstance(value, list):
        return [require_json(each) for each in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: require_json(each) for key, each in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    if hasattr(value, "item"):
        return value.item()  # a scalar of numpy
    raise TypeError(f"{type(value)} is not a type of JSON")


def make_namespace(module: str) -> dict[str, Any]:
    """Return the namespace in which the code runs."""
    found: dict[str, Any] = {}
    for each in STARRED:
        public = [name for name in dir(each) if not name.startswith("_")]
        found |= {name: getattr(each, name) for name in getattr(each, "__all__", public)}
    return found | {each.__name__: each for each in MODULES} | {"__name__": module}
