"""Of an answer sympy's parser evaluates formulas, and nothing that is code."""

import builtins

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy.parsing import sympy_parser

from actors.sandbox.inside.libraries import formulas

X = sympy.Symbol("x")
LEAVES = st.sampled_from([X, sympy.Symbol("C"), sympy.pi, sympy.E, sympy.Rational(1, 3), sympy.Float(2.5)])
FORMULAS = st.recursive(
    LEAVES | st.integers(-99, 99).map(sympy.Integer),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] * pair[1]),
        st.tuples(inner, st.integers(-3, 3)).map(lambda pair: sympy.Pow(pair[0], pair[1], evaluate=False)),
        inner.map(sympy.sqrt), inner.map(sympy.Abs), inner.map(sympy.sin), inner.map(sympy.exp),
        inner.map(lambda each: sympy.log(each, evaluate=False)),
    ),
    max_leaves=6,
)  # fmt: skip


@pytest.fixture(autouse=True)
def held(monkeypatch):
    monkeypatch.setattr(sympy_parser, "stringify_expr", sympy_parser.stringify_expr)
    formulas.hold()


@settings(max_examples=40)
@given(FORMULAS)
def test_a_formula_of_sympys_own_is_read_as_it_was(formula):
    with pytest.MonkeyPatch.context() as without:
        without.setattr(sympy_parser, "stringify_expr", formulas._python)
        before = sympy.parse_expr(str(formula))
    assert str(sympy.parse_expr(str(formula))) == str(before)


@pytest.mark.parametrize("text", ["(50 - 8)/2", "5!", "2*(x + 1)**2", "x**2/2 + C", "1e-3*x", "0.2[1]", "ln(abs(x))"])
def test_a_formula_as_a_person_writes_it_is_read(text):
    assert isinstance(sympy.parse_expr(text), sympy.Expr)
    assert isinstance(sympy.sympify(text), sympy.Expr)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')", "exec('1')", "eval('1')", "open('/')", "x.args", "(1).__class__", "[1][0]", "lambda x: x",
        "S('exec(1)')", "sin('exec(1)')", "Symbol('exec(1)')", "Function('exec')(x)", "f(x)", "lambdify(x, x)(1)",
        "integrate(x)", "Integral(x)", "diff(x**2)", "Derivative(x**2)", "solve(x)", "factor(x)", "x if x else x",
        "(x, x)", "x == x", "max(*[1])", "log(x, evaluate=False)",
    ],
)  # fmt: skip
def test_what_could_run_or_solves_the_question_is_refused(text):
    for read in (sympy.parse_expr, sympy.sympify):
        with pytest.raises(ValueError, match="is not a formula"):
            read(text)


@settings(max_examples=40)
@given(st.sampled_from(sorted(vars(builtins).keys() | set(dir(sympy)))), st.sampled_from(["", "x", "'x'", "1, 2"]))
def test_what_sympy_or_python_names_gives_a_number_a_formula_or_an_error(name, arguments):
    try:
        read = sympy.parse_expr(f"{name}({arguments})")
    except (ValueError, TypeError, SyntaxError, AttributeError, RecursionError):
        return
    assert isinstance(read, sympy.Basic | int | float | complex | bool), type(read)
