"""The program in a completion."""

from textwrap import indent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.text.fences import WrittenProgram, find_program

PROGRAM = '''\
import random


class TideEnv:
    """A tide."""

    def reset(self, seed):
        return """Which?
Go""", {}

    def step(self, action):
        return "x", 0.0, False, False, {}
'''
EARLIER = PROGRAM.replace("Tide", "Earlier")
USAGE = "```python\nenv = TideEnv()\nenv.reset(1)\n```\n"
PLAYER = "```python\nclass Player:\n    def act(self):\n        return TideEnv().step('x')\n```\n"
FENCES = ("fences",)


def fenced(program=PROGRAM, opening="```python", closing="```\n"):
    return f"{opening}\n{program}{closing}"


@pytest.mark.parametrize(
    "completion",
    [
        fenced(),
        f"I think.\n\n{fenced()}\nDone.",
        *(fenced(opening=f"```{language}") for language in ("", "py", "python3", "Python", " python", "{.python}")),
        fenced(opening='```python title="tide.py"'),
        fenced(opening="~~~python", closing="~~~"),
        fenced(opening="````python", closing="````"),
        fenced(opening="````", closing="`````"),
        fenced().replace("```\n", "```  \n"),
        f"1. It:\n   ```python\n{PROGRAM}   ```\n",
        f"{fenced()}It is used like this:\n{USAGE}",
        f"It will be used like this:\n{USAGE}{fenced()}",
        f"{fenced()}{PLAYER}",
        f"{fenced(EARLIER)}Better:\n{fenced()}",
        f"{fenced(EARLIER, closing='')}Better:\n{fenced()}",
        f'```json\n{{"class": 1}}\n```\n{fenced()}',
        f"```text\nclass of worlds\n```\n{fenced()}",
        f"{fenced()}```\nclass of worlds\n",
        f"~~~\n```\n~~~\n{fenced()}",
    ],
)
def test_the_last_block_with_an_environment_is_the_program(completion):
    assert find_program(completion) == WrittenProgram(PROGRAM)


@pytest.mark.parametrize(
    "completion",
    [
        fenced(closing=""),
        f"1. It:\n{fenced(closing='')}",
        f"{USAGE}{fenced(closing='')}",
        f"```python\n{indent(PROGRAM, '    ')}```\n",
        f"1. It:\n{indent(fenced(), '   ')}\n2. That is all.",
        indent(fenced(), "\t"),
        indent(fenced(opening="~~~py", closing=""), "  "),
    ],
)
def test_a_block_that_is_indented_or_never_closed_is_mended_and_that_is_told(completion):
    written = find_program(completion)
    assert written is not None
    assert written.repairs == FENCES
    assert written.source.rstrip() == PROGRAM.rstrip()


def test_lines_of_a_text_with_less_margin_keep_what_they_have():
    shown = indent(fenced(), "    ").replace("    Go", "  Go")
    assert find_program(shown) == WrittenProgram(PROGRAM, FENCES)


def test_a_fence_further_in_is_a_part_of_the_program():
    program = PROGRAM.replace("A tide.", "A tide.\n    ```\n    x\n    ```\n    ")
    assert find_program(fenced(program)) == WrittenProgram(program)


def test_a_class_without_the_methods_is_taken_where_there_is_no_better_one():
    bare = "class TideEnv(Base):\n    pass\n"
    assert find_program(fenced(bare)) == WrittenProgram(bare)
    assert find_program(fenced(PROGRAM) + fenced(bare)) == WrittenProgram(PROGRAM)
    assert find_program(fenced("class Draft: pass\n") + fenced(bare)) == WrittenProgram(bare)


@pytest.mark.parametrize(
    "completion", ["", "no program", PROGRAM, USAGE, "```", "```text\nclass A\n```", "```java\nclass A {}\n```"]
)
def test_without_a_fenced_class_there_is_no_program(completion):
    assert find_program(completion) is None


@pytest.mark.parametrize(
    "part",
    [
        "```\n",
        "```python\n",
        "~~~\n",
        " ```\n",
        "`",
        "~",
        "\t",
        " ",
        "\n",
        "class A\n",
        "```\nclass A",
        "def reset\n",
        "  class ",
    ],
)
def test_a_long_text_of_anything_is_read(part):
    text = part * ((1 << 20) // len(part))
    assert find_program(text) is None or "class" in part


@given(
    st.lists(
        st.sampled_from(["```", "~~~", "python", "\n", "  ", "\t", "class A:", "def reset(", "def step(", "x"]),
        max_size=30,
    )
)
def test_any_text_is_read_and_what_is_found_is_in_it(parts):
    written = find_program("".join(parts))
    if written is not None:
        assert "class" in written.source
        assert written.source.replace(" ", "").replace("\t", "") in "".join(parts).replace(" ", "").replace("\t", "")
