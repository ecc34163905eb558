"""The execution of a player's code on one input, in a process that knows nothing else.

It is LiveCodeBench's way, in its two forms: a whole program between standard input and output, or a method of a class
`Solution`. What is returned here is the word of a process that ran the code, so it proves nothing but itself.
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
"""Of a number that is read or printed, as LiveCodeBench's own harness allows; Python stops at 4,300."""
MODULES = (
    string, re, datetime, collections, heapq, bisect, copy, math, random, statistics, itertools, functools, operator,
    io, sys, json,
)  # fmt: skip
"""Modules that code may name without importing them."""
STARRED = (*MODULES, builtins, typing)
"""Modules that code finds starred, in the order of LiveCodeBench's own harness.

A later module replaces the names of an earlier one, as with `from … import *`. So the builtins come behind `math`,
`operator` and `re`, each of which has other functions of the same names, such as `pow` and `compile`.
"""


class SpilledError(Exception):
    """The code printed too much."""


class Spill(io.BytesIO):
    """Standard output of bounded length."""

    def write(self, data: Any) -> int:
        """Raises SpilledError beyond EXECUTION_BYTES."""
        if self.tell() + len(data) > EXECUTION_BYTES:
            raise SpilledError
        return super().write(data)


def output(code: str, function: str, given: str) -> str | None:
    """The result of the code for the input; None where it raises. The process is of no other use afterwards."""
    sys.setrecursionlimit(RECURSION)
    sys.set_int_max_str_digits(DIGITS)
    # A thread runs where it is started, since there are none: programs use one for its larger stack.
    threading.Thread.start = threading.Thread.run  # type: ignore[method-assign]
    threading.Thread.join = lambda *_: None  # type: ignore[method-assign]
    try:
        return called(code, function, given) if function else printed(code, given)
    except BaseException:
        return None


def printed(code: str, given: str) -> str:
    """The text that the program writes to standard output for that input; an exit is the end of it, no failure."""
    spill = Spill()
    sys.stdin = io.TextIOWrapper(io.BytesIO(given.encode()))
    sys.stdout = kept = io.TextIOWrapper(spill)
    own = names("__main__")
    own["open"] = lambda *_, **__: sys.stdin  # `open(0)` is common, and no file can be opened
    with contextlib.suppress(SystemExit):
        exec(compile(code, "answer.py", "exec"), own)
    kept.flush()
    return spill.getvalue().decode()


def called(code: str, function: str, given: str) -> str:
    """The JSON of what one call returns; each line of the input is an argument as JSON."""
    own = names("solution")
    exec(compile(code, "answer.py", "exec"), own)
    method = getattr(own["Solution"](), function) if "Solution" in own else own[function]
    result = method(*(json.loads(line) for line in given.split("\n") if line.strip()))
    return json.dumps(carried(list(result) if isinstance(result, tuple) else result))


def carried(value: Any) -> object:
    """The value as JSON carries it without a change. Raises TypeError where it cannot.

    So a tuple in a list is not taken for a list, as LiveCodeBench does not.
    """
    if isinstance(value, list):
        return [carried(each) for each in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: carried(each) for key, each in value.items()}
    if value is None or isinstance(value, str | int | float):
        return value
    if hasattr(value, "item"):
        return value.item()  # of numpy
    raise TypeError(f"{type(value)} is not of JSON")


def names(module: str) -> dict[str, Any]:
    """Return the namespace in which the code runs."""
    found: dict[str, Any] = {}
    for each in STARRED:
        public = [name for name in dir(each) if not name.startswith("_")]
        found |= {name: getattr(each, name) for name in getattr(each, "__all__", public)}
    return found | {each.__name__: each for each in MODULES} | {"__name__": module}
