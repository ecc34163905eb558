"""Literal braces of f-strings that a program forgot to double."""

import argparse
import builtins
import inspect
import json
import keyword
import statistics
import textwrap

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors import corpus
from actors.environments.admission import validate
from actors.nano.games import GAMES
from actors.sandbox.inside import fstrings, repair
from actors.sandbox.inside.given import GIVEN
from actors.sandbox.wire import unpack
from actors.text import worlds
from spade.decoding import UnreadableError
from spade.protocol import Faulted, Observed
from tests.actors.odd_programs import DOOR, LIMITS, SEARCH, program

FILE = "environment.py"
FOUND = (GIVEN, vars(builtins), keyword.kwlist, ("__name__", "__doc__"))
FRAME = """
SIZE = 3
class TideEnv:
    kind = "tide"
    def move(self): pass
    def reset(self, seed):
        moon, self.goal = "full", "high"
        return EXPRESSION
    def step(self, action):
        return f"{action}"
"""


def mended(source: str) -> str:
    """The text that is run in the end; unchanged where it does not compile."""
    try:
        return repair.compile_program(source, FILE, FOUND)[1]
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return source


def framed(expression: str) -> str:
    return FRAME.replace("EXPRESSION", expression)


def said(expression: str) -> str:
    """The answer of the repaired program to `reset`."""
    names = dict(GIVEN)
    exec(mended(framed(expression)), names)
    return names["TideEnv"]().reset(1)


LITERAL = [
    # names that have no value where the line stands
    (r'f"Use \\boxed{action}"', r"Use \boxed{action}"),
    (r'f"Use \\boxed{action}, {moon}"', r"Use \boxed{action}, full"),
    (r'rf"Use \boxed{your_answer}"', r"Use \boxed{your_answer}"),
    (r'f"Use \\boxed{goal}"', r"Use \boxed{goal}"),
    (r'f"Use \\boxed{move}"', r"Use \boxed{move}"),
    ('f"Answer with {red, blue}"', "Answer with {red, blue}"),
    ('f"Go {north|south|east}, {moon}"', "Go {north|south|east}, full"),
    ('f"{action: up}"', "{action: up}"),
    ('F"{red}" "{blue}" f\'{green}\'', "{red}{blue}{green}"),
    ('[f"{red}" for blue in "a"][0]', "{red}"),
    # what does not parse
    ('f"{}"', "{}"),
    ('f"{ } {moon}"', "{ } full"),
    ('f"{} of {}".format(1, 2)', "1 of 2"),
    (r'f"\\boxed{move north}"', r"\boxed{move north}"),
    (r'f"\\boxed{\\text{north}}"', r"\boxed{\text{north}}"),
    (r'f"\\boxed{{{moon}}"', r"\boxed{full}"),
    ('f"Say {the player\'s name} now"', "Say {the player's name} now"),
    ('f"{move red} {moon:>6}"', "{move red}   full"),
    ('f"{open the {colour} door}"', "{open the {colour} door}"),
    ('f"""{\n"a": [1, 2],\n"b": {moon}\n}"""', '{\n"a": [1, 2],\n"b": full\n}'),
    # mappings
    ("f'{\"a\": 1}'", '{"a": 1}'),
    ('f\'{"a": 1, "b": {moon}}\'', '{"a": 1, "b": full}'),
    ('f\'{"a": {"b": 1}}\'', '{"a": {"b": 1}}'),
    ('f\'{"move": {moon}, "why": "because"}\'', '{"move": full, "why": "because"}'),
]


@pytest.mark.parametrize(("expression", "shown"), LITERAL)
def test_braces_that_are_certainly_literal_are_doubled(expression, shown):
    assert said(expression) == shown


@pytest.mark.parametrize("expression", [expression for expression, _ in LITERAL])
def test_without_the_repair_such_a_program_does_not_compile_or_raises(expression):
    names = dict(GIVEN)
    with pytest.raises((SyntaxError, NameError, ValueError)):
        exec(framed(expression), names) or names["TideEnv"]().reset(1)


LEFT = [
    # a value
    r'f"\\boxed{self.goal}"',
    r'f"\\boxed{moon}"',
    'f"{SIZE} {math} {len} {__name__}"',
    'f"{moon!r} {moon:>4} {moon=}"',
    '[f"{red}" for red in "ab"]',
    '(lambda red: f"{red}")(1)',
    'f"{moon:{SIZE}}" + f"{{red}}" + "{red}" + "# f\'{red}"',
    "f'{1: 2}' f'{\"a\": <5}' f'{\"a\": {moon}}'",
    # doubtful: code that went wrong
    'f"{goal}"',
    'f"{kind}"',
    'f"{red.name} {red[0]} {red()} {red!r} {red:.2f} {red=}"',
    'f"{moon, red}"',
    'f"{True, red}"',
    r'f"\\boxed{{{red}}}"',
    "f\"{'\\n'.join(moon)}\"",
    'f"Items: {", ".join(moon)}"',
    'f"{moon["a"]}"',
    'f"{moon}}"',
    'f"{self.go al}"',
    'f"{len(moon}"',
    'f"{moon" + "}"',
    'f"{moon',
    '(f"{red}", globals())',
]


@pytest.mark.parametrize("expression", LEFT)
def test_what_is_a_value_or_in_doubt_stays(expression):
    assert mended(framed(expression)) == framed(expression)


def test_a_name_that_may_have_a_value_stays():
    for source in (
        'def f():\n    global red\n    red = 1\ndef g(): return f"{red}"\n',
        'from os import *\ndef g(): return f"{red}"\n',
        'import os.path as red, sys\ndef g(): return f"{red} {sys}"\n',
        'class A:\n    red = 1\n    def g(self, shown=f"{red}"): pass\n',
        'def f(red):\n    return lambda: f"{red}"\n',
        'def f(seen):\n    match seen:\n        case [red, *blue]: return f"{red} {blue}"\n',
        'try: pass\nexcept OSError as red: f"{red}"\n',
        'def f():\n    if (red := 1): return f"{red}"\n',
        'def f(): return f"{red}"\nfor red in "ab": pass\n',
        'exec("red = 1")\ndef f(): return f"{red}"\n',
    ):
        assert mended(source) == source, source


def test_the_scope_of_the_line_decides():
    source = FRAME.replace("EXPRESSION", 'f"{action}"')
    assert mended(source) == source.replace('return f"{action}"', 'return f"{{action}}"', 1)


def sources():
    nano = [environment.source for environment in GAMES.unseen(3, corpus.load("builtin"), 12)]
    library = [inspect.getsource(module) for module in (argparse, statistics, inspect, textwrap, json)]
    return [*nano, *library, worlds.COURSE, worlds.ANSWER, DOOR, SEARCH]


@pytest.mark.parametrize("source", sources())
def test_a_sound_program_is_unchanged_and_its_syntax_tree_never_built(source, monkeypatch):
    monkeypatch.delattr(repair, "Names")
    assert mended(source) == source


VALUES = st.sampled_from(
    ["word", "self.goal", "SIZE", "word.upper()", "word[0]", "word, SIZE", "word!r", "SIZE:>4", "word=", "[1, 2]",
     "{'a': 1}['a']", "(lambda red: red)(1)", "[red for red in word]", "'a'", "'a':>3", "1: 2", "{1, 2}", "max(1, 2)"]
)  # fmt: skip
PLAIN = st.text(st.sampled_from("abz 1:,'|.{}\\n\n\t#é"), max_size=6).map(
    lambda text: text.replace("\\", "\\\\").replace("{", "{{").replace("}", "}}").replace("'", "")
)
FIELD = VALUES.map(lambda value: "{" + (" " if value[0] == "{" else "") + value + "}")
PARTS = st.lists(st.one_of(PLAIN, FIELD), max_size=6).map("".join)


@given(st.lists(PARTS, min_size=1, max_size=4))
def test_a_program_that_compiles_and_binds_its_names_is_unchanged(parts):
    lines = "".join(f'    self.said = f"""{part}"""\n' for part in parts)
    source = f"SIZE = 3\ndef reset(self, word):\n{lines}"
    compile(source, FILE, "exec")
    assert mended(source) == source


TEXT = st.text(st.sampled_from("{{{{}}}}\"\"''fr ab:!|,=()[]\\#\n1"), max_size=40)


@given(st.lists(TEXT, min_size=1, max_size=4), st.sampled_from(['f"{}"', "f'{}'", 'rf"""{}"""', "{}"]))
def test_any_text_is_mended_once_keeps_its_lines_and_differs_in_braces_alone(texts, form):
    source = "".join(f"    {form.replace('{}', text)}\n" for text in texts)
    for whole in (source, f"def f(a):\n{source}"):
        once = mended(whole)
        assert mended(once) == once
        assert once.count("\n") == whole.count("\n")
        assert [sign for sign in once if sign not in "{}"] == [sign for sign in whole if sign not in "{}"]
        if once != whole:
            compile(once, FILE, "exec")


@given(st.lists(TEXT, max_size=4).map("\n".join))
def test_reading_any_text_raises_nothing_but_that_it_cannot_be_read(text):
    assert repair.repair_braces(text).replace("{", "").replace("}", "") == text.replace("{", "").replace("}", "")
    try:
        found = fstrings.find_fields(text)
    except fstrings.UncertainError:
        return
    assert all(text[start] == "{" and text[end - 1] == "}" for start, end in found)


MANY = 1 << 20
HOSTILE = {
    "braces": "{" * MANY,
    "braces of an f-string": 'f"' + "{" * (MANY + 1) + '"',
    "braces apart": 'f"' + "{ " * (MANY // 2) + '"',
    "empty fields": 'f"' + "{}" * (MANY // 2) + ' {x y"',
    "closing braces": 'f"' + "}" * (MANY + 1) + '"',
    "f-strings": 'f"{}"' * (MANY // 5) + "{",
    "deep brackets": 'f"{' + "(" * 900 + ")" * 90 + '}"',
    "deep fields": 'f"' + "{a b " * 900 + "}" * 899 + '"',
    "a long name": 'f"{' + "a" * MANY + '!}"',
    "many names": 'f"{' + "a," * (MANY // 2) + '"',
    "white space": 'f"{' + " " * MANY + '"',
    "quotes": '"' * (MANY + 3),
    "an open string": 'f"""{' + "a b" * (MANY // 3),
    "open strings": "f'{\n" * (MANY // 4),
    "backslashes": 'f"' + "\\" * (MANY + 1),
    "names of characters": 'f"' + "\\N{" * (MANY // 3) + '"',
    "NUL": 'f"{\0}"',
    "comments": "#f'{}'" * (MANY // 6) + "\n(",
    "a lone surrogate": 'f"{\ud800 x}" (',
}


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_text_is_left_to_the_compiler(source):
    assert mended(source) == source


def test_the_fields_that_are_parsed_are_few_however_many_there_are(monkeypatch):
    parsed, parse = [], repair._try_parse
    monkeypatch.setattr(repair, "_try_parse", lambda text: parsed.append(len(text)) or parse(text))
    for source in HOSTILE.values():
        repair.repair_braces(source)
        assert len(parsed) <= 2 * repair.FIELDS
        assert max(parsed, default=0) <= fstrings.LONGEST + 10
        parsed.clear()


# ---------------------------------------------------------------- in the sandbox

BOXED = SEARCH.replace('"Find the number. Actions: 1..30"', 'f"Find it, \\\\boxed{guess}. Actions: 1..30"')
BRACES = "f-string braces"


async def test_admission_and_plays_run_the_repaired_text_and_admission_says_so(sandbox):
    assert BOXED != SEARCH
    verdict = await validate(sandbox, BOXED, 3, LIMITS)
    assert verdict.passed, verdict.stages[-1]
    assert verdict.repairs == (BRACES,)
    assert verdict.first_observation == r"Find it, \boxed{guess}. Actions: 1..30"
    assert await sandbox.open("e", BOXED, 1, 3) == Observed(verdict.first_observation)
    assert (await validate(sandbox, SEARCH, 3, LIMITS)).repairs == ()


@pytest.mark.parametrize("repairs", [["fences"], ["\x1b[2J"], [BRACES] * 2, [[BRACES]], BRACES, {}, [1], ["x"] * 9_999])
def test_an_answer_that_is_forged_tells_of_no_other_repair(repairs):
    body = {"is": "loaded", "nonce": "1", "name": "TideEnv"}
    assert unpack(msgspec.json.encode(body | {"repairs": [BRACES]})).repairs == (BRACES,)
    with pytest.raises(UnreadableError):
        unpack(msgspec.json.encode(body | {"repairs": repairs}))


async def test_errors_name_the_lines_of_the_written_program(sandbox):
    source = program(module='TEXT = f"""{\n}{}\n"""', reset="1 / 0")
    line = next(number for number, line in enumerate(source.split("\n"), 1) if "1 / 0" in line)
    fault = await sandbox.open("e", source, 1, 3)
    assert isinstance(fault, Faulted)
    assert fault.detail == f"ZeroDivisionError: division by zero (line {line})"


async def test_a_hostile_text_is_rejected_in_the_stage_parse(sandbox):
    for name in ("braces apart", "deep brackets", "deep fields", "NUL", "open strings", "empty fields"):
        verdict = await validate(sandbox, HOSTILE[name], 3, LIMITS)
        assert [(stage.name, stage.passed) for stage in verdict.stages] == [("parse", False)], name
        assert verdict.repairs == ()
