"""Lines and hidden variables of programs, counted by hand."""

import ast
import textwrap
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.text import worlds
from actors.text.measures.program import find_hidden_variables, measure
from spade.protocol import Measures


def hidden(reset: str, step: str = "pass", more: str = "") -> set[str]:
    """The hidden variables of a class with these bodies."""
    source = "class RoomEnv:\n" + "".join(
        f"    def {head}:\n{textwrap.indent(textwrap.dedent(body).strip(), ' ' * 8)}\n"
        for head, body in (("reset(self, seed)", reset), ("step(self, action)", step))
    )
    tree = ast.parse(source + textwrap.indent(textwrap.dedent(more), "    ")).body[0]
    assert isinstance(tree, ast.ClassDef)
    return find_hidden_variables(tree)


def test_the_worked_examples_of_the_prompt() -> None:
    assert measure(worlds.COURSE, "BoilerStartEnv") == Measures(45, 1)  # the order of the valves
    assert measure(worlds.ANSWER, "ThreeBellsEnv").hidden_variables == 0  # all is told


def test_lines_are_those_with_code() -> None:
    source = "# a comment\n\nclass AEnv:\n    # more\n    pass  # behind code\n\n"
    assert measure(source, "AEnv") == Measures(2, 0)


@pytest.mark.parametrize(
    "value", ["0", "None", "False", "''", "[]", "{}", "()", "set()", "dict()", "seed", "random.Random(seed)"]
)
def test_an_empty_start_a_parameter_or_a_generator_hides_nothing(value: str) -> None:
    assert hidden(f"self.a = {value}") == set()


@pytest.mark.parametrize(
    "given",
    [
        "self.a = rng.randint(1, 9)", "self.a: int = 7", "self.a, self.b = 0, rng.random()", "self.a = [0] * 9",
        "self.a = {}\nself.a['k'] = 1", "self.a = []\nself.a.append(seed)", "self.a = 0\nself.a += seed",
        "for self.a in range(9):\n    pass",
    ],
)  # fmt: skip
def test_what_is_given_in_any_way_is_hidden_where_no_text_shows_it(given: str) -> None:
    assert "a" in hidden(given)
    assert "a" not in hidden(given, "return f'{self.a}', 0.0, False, False, {}")


def test_methods_that_reset_calls_set_the_instance_up_as_well() -> None:
    first, second = "def draw(self):\n    self.a = 3\n    self.more()\n", "def more(self):\n    self.b = 3\n"
    draw = f"{first}{second}def other(self):\n    self.c = 3\n"
    assert hidden("self.draw()", more=draw) == {"a", "b"}


@pytest.mark.parametrize(
    "text",
    [
        "f'{self.a:>3} and {self.a!r}'", "' '.join(self.a)", "'{}'.format(self.a)", "'%s' % self.a",
        "'is ' + str(self.a)",
        "' '.join(str(each) for each in self.a)", "f'{self.a if action else 0}'", "f'{str(self.a).upper()}'",
    ],
)  # fmt: skip
def test_a_text_shows_the_values_it_holds(text: str) -> None:
    assert hidden("self.a = 3", f"said = {text}") == set()


@pytest.mark.parametrize(
    "step",
    [
        "for each in self.a:\n    said += f'{each}, '", "rows = self.a\nsaid = f'{rows}'",
        "for row in self.a:\n    for cell in row:\n        said = f'{cell}'", "return self.a, 0.0, False, False, {}",
    ],
)  # fmt: skip
def test_a_loop_a_copy_and_a_returned_observation_show_them(step: str) -> None:
    assert hidden("self.a = 3", step) == set()


@pytest.mark.parametrize(
    "step",
    [
        "said = f'{abs(guess - self.a)} off'", "said = f'{self.a > guess}'", "said = f'{len(self.a)} left'",
        "said = f'{self.a[self.turn]}'", "said = ' '.join(self.a[:3])", "won = action == str(self.a)",
        "won = action == f'open {self.a}'", "said = f'{\"warm\" if guess < self.a else \"cold\"}'",
        "near = abs(guess - self.a)\nsaid = f'{near}'",
    ],
)  # fmt: skip
def test_a_result_an_item_or_a_comparison_does_not_show_the_value(step: str) -> None:
    assert hidden("self.a = 3", step) == {"a"}


def test_the_solution_is_not_shown_to_a_player() -> None:
    assert hidden("self.a = 3", more="def solution(self):\n    return f'say {self.a}'\n") == {"a"}


def test_what_is_no_python_as_it_stands_has_lines_alone() -> None:
    assert measure("class AEnv:\n    x = f'\\boxed{action'\n", "AEnv") == Measures(2, None)
    assert measure("class AEnv:\n    pass\n", "Other") == Measures(2, None)


@pytest.mark.parametrize(
    "source", ["-" * 100_000 + "1", "(" * 5_000, "x = " + "+".join(["'a'"] * 50_000), "\0", "x\ud800"]
)
def test_a_hostile_text_is_measured_or_is_not(source: str) -> None:
    assert measure(f"class AEnv:\n  def reset(self):\n    self.a = 1\n    {source}\n", "AEnv").hidden_variables in (
        None,
        1,
    )


@given(st.text() | st.from_regex(r"class AEnv:\n  def reset\(self\):\n    self\.[ab] = [a-c0-2\[\]{}()'f.+% ]{0,12}\n"))
def test_every_text_can_be_measured(source: str) -> None:
    found = measure(source, "AEnv")
    assert found.lines is not None
    assert found.hidden_variables in (None, 0, 1)


@pytest.mark.parametrize("step", [1, -1])
def test_a_long_chain_of_copies_is_followed_in_time_that_grows_with_its_length(step: int) -> None:
    copies = [f"a{place} = a{place + 1}" for place in range(3000)][::step]
    began = time.process_time()
    assert hidden("self.told = self.kept = 7", "\n".join(["a3000 = self.told", *copies, "return f'{a0}', 0"])) == {
        "kept"
    }
    assert time.process_time() - began < 5  # seconds; nearly a minute where each copy looks at all others


def test_the_hidden_variables_of_a_very_long_program_are_unknown() -> None:
    source = "class AEnv:\n    def reset(self):\n        self.a = 7\n"
    assert measure(source + "#" * ((1 << 16) - len(source)), "AEnv") == Measures(3, 1)
    assert measure(source + "#" * (1 << 16), "AEnv") == Measures(3, None)
