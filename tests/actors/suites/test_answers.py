r"""Answers as suites read them: a letter leniently, the last box, the last block of code."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.suites.answers import READERS, find_answer_code, find_letter


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        (r"\boxed{C}", "C"),
        (r"First \boxed{A}, no: \boxed{ (b) }.", "B"),
        (r"\boxed{\text{D}}", "D"),
        (r"\boxed{\mathbf{(A)}}", "A"),
        (r"$\boxed{\textbf{C.}\ 12\ \mathrm{m}}$", "C"),
        (r"\boxed{C. Because A is wrong}", "C"),
        (r"\boxed{Option D}", "D"),
        (r"\boxed{Answer: B}", "B"),
        ("The answer is (C).", ""),
        ("<think>The answer is A</think>\n\\boxed{B}", "B"),
        ("<think>The answer is A", ""),
        (r"\boxed{A red giant}", ""),
        (r"\boxed{12}", ""),
        (r"\boxed{E}", ""),
        (r"\boxed{AB}", ""),
        ("I choose nothing.", ""),
        ("", ""),
    ],
)
def test_a_letter_is_read_leniently(text, chosen):
    assert find_letter(text) == chosen


@given(st.text(max_size=30))
def test_any_text_is_a_letter_or_none(text):
    assert find_letter(text) in {"", "A", "B", "C", "D"}
    assert find_letter(f"\\boxed{{{text}}}") in {"", "A", "B", "C", "D"}


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("```python\nprint(1)\n```", "print(1)\n"),
        ("```python\nprint(1)\n```\nbetter:\n```py\nprint(2)\n```", "print(2)\n"),
        ("```python\nprint(1)\n```\nIt prints:\n```text\n1\n```", "print(1)\n"),
        ("```\nprint(1)\n```", "print(1)\n"),
        ("<think>```python\nprint(1)\n```</think>no", ""),
        ("print(1)", ""),
    ],
)
def test_code_is_the_last_block_of_python(text, program):
    assert find_answer_code(text) == program


def test_an_answer_of_mathematics_is_the_last_box():
    assert READERS["box"](r"\boxed{1} and then \boxed{\frac{1}{2}}") == r"\frac{1}{2}"
