"""Questions of mathematics, and questions with lettered choices, written in the program's own text."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import math_verify

from .letters import find_letter
from .one_answer import OneAnswerEnv

COMPARISON_S = 5.0
"""Limit of the processor time of a comparison. math_verify's own limit is clock time, so its results depend on the
load."""

LONGEST_TIDIED = 200
"""The largest number of characters of an answer that `tidy_answer` changes."""

_AGAIN_S = 0.1
_SPACES = re.compile(r"~|\\(?:[ ,;:!]|q?quad(?![A-Za-z]))")
_COLOUR = re.compile(r"\\(?:text|page)?color(?:box)?\s*+\{[^{}]*+\}")
_STYLED = re.compile(
    r"\\(?:(?:text|math)[a-z]*+|boldsymbol|bm|pmb|ensuremath|emph|underline|boxed|[mhf]box|small|[lL]arge|LARGE|[hH]uge"
    r"|bf|rm|it|sf|tt)\s*+\{([^{}]*\d[^{}]*+)\}"
)
"""A style of a text that contains a number."""
_INTRODUCTION = re.compile(
    r"\A\s*+(?:\\text[a-z]*+\s*+\{\s*+)?+(?:(?:therefore|thus|hence|so)\b,?+\s*+)?+(?:the\s++)?+(?:final\s++)?+"
    r"(?:(?:answer|remainder|sum|value|result|total|number|product|probability|area|length)"
    r"(?:\s++of(?:\s++[a-z]++)+?(?=\s*+(?:is\b|equals|[:=])))?)?(?:\s*+(?:\bis\b|equals|[:=]))*+"
    r"\s*+\}?+(?=[\s({$]*+[-+]?+(?:[.\d]|\\(?:[dt]?frac|sqrt)))",
    re.IGNORECASE,
)
"""Words that introduce a number: `The remainder is`."""
_MODULUS = re.compile(
    r"[\s~,]*+\(?\s*+(?:\\(?:text|mathrm|operatorname)\s*+\{\s*+\(?)?\\?[pb]?mod(?:ulo)?[\s~}]*+\{?\s*+"
    r"\d[\d,{}^]*+[\s)}]*+\Z"
)
_MARKS = r"\\(?:degree|checkmark|(?:black)?square|Box|qed)(?![A-Za-z])"
_ENDS = re.compile(rf"^(?:\*\*|\s|\\[ ,;:!])++|(?:[\s~.,;:°]|\*\*|{_MARKS}|\\[ ,;:!]?)++\Z")


class LateError(BaseException):
    """Raised when the processor time is used up. A BaseException, because math_verify catches every Exception."""


class WrittenQuestionEnv(OneAnswerEnv):
    """A question with its answer. The seed changes neither."""

    question = ""
    answer = ""

    def pose(self, seed: int) -> str:
        """Return the question."""
        return self.question

    def solution(self) -> list[str]:
        """Return the answer."""
        return [self.answer]


class MathAnswerEnv(WrittenQuestionEnv):
    r"""A problem with a mathematical answer. A player's answer is compared unchanged, and again after `tidy_answer`.

    An answer without `\boxed` is compared as if it were in a box.
    """

    def score(self, answer: str) -> float:
        """Return 1 for an equal answer, and 0 for another answer or if the comparison takes too long."""
        try:
            with limit_processor_time(COMPARISON_S):
                right, *forms = (
                    math_verify.parse(put_in_box(each), parsing_timeout=0)
                    for each in (self.answer, *dict.fromkeys((answer, tidy_answer(answer))))
                )
                return float(any(math_verify.verify(right, said, timeout_seconds=None) for said in forms))
        except LateError:
            return 0.0


@contextmanager
def limit_processor_time(seconds: float) -> Iterator[None]:
    """Raise LateError in the block after `seconds` of this process's processor time, repeatedly until the block ends.

    Python drops an error that is raised while an object is finalised, so a single error may be lost.
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


def tidy_answer(answer: str) -> str:
    r"""Remove what confuses math_verify in an answer: `70.`, `70 \pmod{1000}`, `\mathsf{70}`, `The answer is 70`."""
    if len(answer) > LONGEST_TIDIED:
        return answer
    plain = _COLOUR.sub("", _SPACES.sub(" ", answer))
    while (bare := _STYLED.sub(r" \1 ", plain)) != plain:
        plain = bare
    return _ENDS.sub("", _MODULUS.sub("", _ENDS.sub("", _INTRODUCTION.sub("", plain))))


def put_in_box(answer: str) -> str:
    """Wrap the answer in \\boxed{}, unless it already contains a box."""
    return answer if r"\boxed" in answer else rf"\boxed{{{answer}}}"


class ChoiceEnv(WrittenQuestionEnv):
    """A question that shows its choices. Its answer is one of `letters`."""

    letters = "ABCD"

    def score(self, answer: str) -> float:
        """Return 1 for the right letter, else 0."""
        return float(read_letter(answer, self.letters) == self.answer)


def read_letter(answer: str, letters: str) -> str:
    r"""Return the letter in the last `\boxed`, or else in the whole answer. Returns "" for no or several letters."""
    return find_letter(answer.rpartition(r"\boxed")[2], letters)


def warm() -> None:
    """Score one mathematical answer. The zygote has run math_verify already."""
    assert type("WarmEnv", (MathAnswerEnv,), {"answer": "1/2"})().score("0.5") == 1
