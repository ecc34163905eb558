"""Questions of mathematics, and questions with lettered choices, that stand in the program's own text."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import math_verify

from .one_answer import OneAnswerEnv

COMPARISON_S = 5.0
"""Processor time of a comparison. Seconds of the clock, as math_verify counts, would let the load decide."""

_AGAIN_S = 0.1


class LateError(BaseException):
    """The processor time is used up; math_verify catches every Exception."""


class WrittenQuestionEnv(OneAnswerEnv):
    """A question that has its answer beside it; no seed changes either."""

    question = ""
    answer = ""

    def pose(self, seed: int) -> str:
        """The question."""
        return self.question

    def solution(self) -> list[str]:
        """The answer."""
        return [self.answer]


class MathAnswerEnv(WrittenQuestionEnv):
    """A problem whose answer is compared as mathematics. An answer without a box is taken as the inside of one."""

    def score(self, answer: str) -> float:
        """1 for an equal answer; 0 where the comparison does not come to its end."""
        try:
            with processor_time(COMPARISON_S):
                right, said = (math_verify.parse(boxed(each), parsing_timeout=0) for each in (self.answer, answer))
                return float(math_verify.verify(right, said, timeout_seconds=None))
        except LateError:
            return 0.0


@contextmanager
def processor_time(seconds: float) -> Iterator[None]:
    """A deadline in seconds of this process's processor time. Raises LateError, again and again until it is left.

    Python drops an error that is raised while an object is finalised, so one alone may be lost.
    """
    inside = True

    def end(*_: object) -> None:
        if inside:
            raise LateError

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds, _AGAIN_S)
    try:
        yield
    finally:
        inside = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def boxed(answer: str) -> str:
    """The answer in a box."""
    return answer if r"\boxed" in answer else rf"\boxed{{{answer}}}"


class ChoiceEnv(WrittenQuestionEnv):
    """A question, with its choices as it shows them, whose answer is one of `letters`."""

    letters = "ABCD"

    def score(self, answer: str) -> float:
        """1 for the right letter."""
        return float(letter(answer, self.letters) == self.answer)


def letter(answer: str, letters: str) -> str:
    r"""The choice that an answer names, read leniently: `b`, `(B)`, `\boxed{\text{B}}`, `B. Paris`, `Answer: B`.

    "" where it names none, or more than one and none at its beginning.
    """
    first = re.match(rf"\W*([{letters}])\s*[.:)]", answer)
    if first:
        return first[1]
    plain = re.sub(r"\\[a-zA-Z]+|[{}$*()\[\]]", " ", answer).strip()
    if len(plain) == 1:
        return plain.upper() if plain.upper() in letters else ""
    named = re.findall(rf"(?<![\w'])[{letters}](?![\w'])", plain)
    return str(named[0]) if len(set(named)) == 1 else ""


def warm() -> None:
    """An answer of each kind; the zygote has run math_verify already."""
    assert type("WarmEnv", (MathAnswerEnv,), {"answer": "1/2"})().score("0.5") == 1
