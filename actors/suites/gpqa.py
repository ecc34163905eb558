"""GPQA-Diamond: 198 questions with four options each. The answer is a letter.

Files are the set's CSV, or rows with its columns: Question, Correct Answer, Incorrect Answer 1 to 3, and optionally
Record ID and High-level domain.
"""

from collections.abc import Iterator
from itertools import count, repeat
from pathlib import Path
from random import Random

from actors.suites.programs import write_program
from actors.suites.rows import DataRow, UniqueValues, read_rows
from actors.suites.suite import Suite
from spade.evaluations import Protocol, Sampling, SuiteItem

_ASK = """{problem}

Reason step by step. Put the letter of the right option, and nothing else, in \\boxed{}."""
_SEED, _LETTERS = 42, "ABCD"
_OPTIONS = ("Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")
_PAPER = Sampling(temperature=0.7, top_p=0.8, top_k=20, max_tokens=16_384)
_RELEASE = Sampling(temperature=0.7, top_p=0.95, max_tokens=16_384)
_SHORT = Sampling(temperature=0.7, top_p=0.8, top_k=20, max_tokens=8_192)


def read(protocol: Protocol, data: Path | None) -> list[SuiteItem]:
    """See Reader."""
    assert data is not None
    once, randoms = UniqueValues(), _make_randoms(protocol)
    return [_make_item(row, number, next(randoms), once) for number, row in enumerate(read_rows(data))]


def _make_randoms(protocol: Protocol) -> Iterator[Random]:
    """Yield the random generator for the options of each row. The protocol `release` has one generator for all rows."""
    if protocol.name == "release":
        return repeat(Random(_SEED))
    return (Random(_SEED + number) for number in count())


def _make_item(row: DataRow, number: int, random: Random, once: UniqueValues) -> SuiteItem:
    question, options = row.text("Question"), [row.text(name) for name in _OPTIONS]
    order = list(range(len(options)))
    random.shuffle(order)
    name = row.id(number, "Record ID", "id")
    once.add(row, "id", name)
    once.add(row, "question", question)
    shown = "\n".join(f"{letter}. {options[place]}" for letter, place in zip(_LETTERS, order, strict=True))
    answer = _LETTERS[order.index(0)]
    source = write_program("ChoiceEnv", question=f"{question}\n\n{shown}", letters=_LETTERS, answer=answer)
    return SuiteItem(name, row.category("High-level domain"), source)


GPQA = Suite(
    "gpqa-diamond",
    {
        "paper": Protocol(name="paper", prompt=_ASK, sampling=_PAPER, samples=2, grading="boxed-letter"),
        "release": Protocol(name="release", prompt=_ASK, sampling=_RELEASE, samples=8, grading="boxed-letter"),
        "short": Protocol(name="short", prompt=_ASK, sampling=_SHORT, samples=1, grading="boxed-letter"),
    },
    read,
    size=198,
    columns="the CSV with the columns Question, Correct Answer and Incorrect Answer 1 to 3",
)
