"""AIME 2025 and 2026: thirty problems a year, each with an answer from 0 to 999.

Math-verify judges the last boxed answer, inside the sandbox. Files are JSON Lines, CSV or Parquet. Their columns are
`problem` (or `question`), `answer` (or `solution`, in which the answer is boxed), and optionally `id` (or
`problem_idx`).
"""

import re
from pathlib import Path

from actors.suites.programs import write_program
from actors.suites.rows import DataRow, UniqueValues, read_rows
from actors.suites.suite import Suite
from actors.text.actions import find_boxed
from spade.errors import RunError
from spade.evaluations import Protocol, Sampling, SuiteItem
from spade.text import as_line

_ASK = """{problem}

Reason step by step. Put the answer, a whole number from 0 to 999, in \\boxed{}."""
_ANSWER = re.compile(r"\$?0*([0-9]{1,3})(?:\.0)?(?:\^\{?\\circ\}?|°)?\$?")
_PAPER = Sampling(temperature=0.7, top_p=0.8, top_k=20, max_tokens=32_768)
_RELEASE = Sampling(temperature=1.0, top_p=0.95, top_k=20, max_tokens=32_768)
_SHORT = Sampling(temperature=0.7, top_p=0.8, top_k=20, max_tokens=8_192)


def read(_: Protocol, data: Path | None) -> list[SuiteItem]:
    """See Reader."""
    assert data is not None
    items, once = [], UniqueValues()
    for number, row in enumerate(read_rows(data), 1):
        problem, right = row.text("problem", "question"), _answer(row)
        name = row.id(number, "id", "problem_idx")
        once.add(row, "id", name)
        once.add(row, "problem", problem)
        items.append(SuiteItem(name, "", write_program("MathAnswerEnv", question=problem, answer=right)))
    return items


def _answer(row: DataRow) -> str:
    """Return the answer, a whole number from 0 to 999, without leading zeros. A boxed answer in the text counts first.

    Raises RunError.
    """
    name = row.name("answer", "expected_answer", "solution") or "answer"
    value = row.find(name)
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else row.text(name)
    found = _ANSWER.fullmatch(find_boxed(text) or text)
    if found is None:
        raise RunError(f"{row.where}, column {name!r}: {as_line(text, 60)!r} is not a whole number from 0 to 999")
    return found[1]


def _make_suite(name: str) -> Suite:
    return Suite(
        name,
        {
            "paper": Protocol(name="paper", prompt=_ASK, sampling=_PAPER, samples=32, grading="mathematics"),
            "release": Protocol(name="release", prompt=_ASK, sampling=_RELEASE, samples=64, grading="mathematics"),
            "short": Protocol(name="short", prompt=_ASK, sampling=_SHORT, samples=2, grading="mathematics"),
        },
        read,
        size=30,
        columns="JSON Lines, CSV or Parquet with the columns problem and answer",
    )


AIME25, AIME26 = _make_suite("aime25"), _make_suite("aime26")
