"""Docstrings and documentation are written in plain English: verbs first, full clauses, short sentences.

Plain sentences cannot be proved by counting. But these figures rise when constructions come back that a reader has to
unfold, such as "that of" for a noun, "where" for a condition or "has none" at the end of a clause.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain, cycle
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("actors", "learner", "replay", "spade")
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs/*.md")
WORST = 15

PHRASES = {
    "is none": ("(?:is|are|was|were) (?:none|no(?! longer))", 0.5),
    "has none": ("(?:has|have|had) (?:none|no)", 0.5),
    "that of": ("(?i:that|those) of", 0.2),
    "where": ("(?i:where)", 2.0),
    "whose": ("(?i:whose|whom|(?:of|by|in) which)", 1.5),
    "what": ("(?i:what)", 2.0),
}
"""For each construction its pattern, and how often it may occur in 1,000 words. "is None" is Python and allowed."""
SEMICOLONS = 8.0
"""Most semicolons in 1,000 words."""
LONG_WORDS = 25
"""A longer sentence counts as long."""
LONG_IN_DOCSTRINGS, LONG_IN_DOCUMENTS = 0.03, 0.06
"""Largest share of long sentences."""
NOUN_SHARE = 0.05
"""Largest share of functions whose docstring does not begin with a verb. Properties may begin with a noun."""
VERB_NAMES = 0.5
"""Smallest share of functions whose name begins with a verb. Properties and special methods are not counted."""
PREDICATES = {"is", "has", "can"}
"""Verbs that begin names and no docstrings."""

PATTERNS = {name: re.compile(rf"\b(?:{pattern})\b") for name, (pattern, _) in PHRASES.items()}
PATTERNS["semicolon"] = re.compile(";")
CEILINGS = {name: most for name, (_, most) in PHRASES.items()} | {"semicolon": SEMICOLONS}
NO_VERB = re.compile(
    r"(?:an?|the|th(?:is|at|ese|ose)|its|their|all|any|each|every|one|no|none|some|true|false"
    r"|if|of|in|at|as|for|by|up|to)\b",
    re.IGNORECASE,
)
"""First words that are never a verb. A noun without an article is not found."""
QUESTION = re.compile(r"(?:who|what|whom|whose|whether|how|which|where|why)\b", re.IGNORECASE)
SENTENCE = re.compile(r"(?:(?<=[.!?])\s+|\n\s*\n|\n(?=\s*(?:[*-] |\d+\. |\S+ {2,})))")
"""The gap between two sentences, items of a list, or rows of a table in columns."""
SKIPPED = re.compile(r"^ *(?:```.*?^ *```|[#|].*?$)", re.MULTILINE | re.DOTALL)
"""Code, headings and tables of a document."""


class Passage(NamedTuple):
    """A docstring, or the prose of a document."""

    path: str
    line: int
    text: str
    function: bool = False
    """True for the docstring of a function that is not a property."""

    def sentences(self) -> Iterator[tuple[str, str]]:
        """Yield the place and the text of each sentence."""
        start = 0
        for end, after in chain(((gap.start(), gap.end()) for gap in SENTENCE.finditer(self.text)), [(None, 0)]):
            if sentence := " ".join(self.text[start:end].split()):
                line = self.line + self.text.count("\n", 0, start)
                yield f"{self.path}:{line}", sentence
            start = after


def docstrings(path: Path) -> Iterator[Passage]:
    """Yield all docstrings of a file, of its assignments and fields too."""
    left: list[ast.AST] = [ast.parse(path.read_bytes())]
    while left:
        node = left.pop()
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else ():
            match each:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    function = each is body[0] and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                    yield Passage(str(path), each.lineno, text, function and not is_property(node))
                case _:
                    left.append(each)


def is_property(node: ast.AST) -> bool:
    names = {each.id for each in getattr(node, "decorator_list", ()) if isinstance(each, ast.Name)}
    return not names.isdisjoint({"property", "cached_property"})


@cache
def passages(package: str) -> list[Passage]:
    """Return the docstrings of a package. The programs in its data are texts for models, so they are left out."""
    paths = sorted(path for path in (ROOT / package).rglob("*.py") if ROOT / "spade/data" not in path.parents)
    return [each._replace(path=str(path.relative_to(ROOT))) for path in paths for each in docstrings(path)]


@cache
def function_names(package: str) -> list[str]:
    """Return the names of a package's functions, without properties, special methods and the programs in its data."""
    paths = [path for path in (ROOT / package).rglob("*.py") if ROOT / "spade/data" not in path.parents]
    nodes = (node for path in paths for node in ast.walk(ast.parse(path.read_bytes())))
    functions = (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [each.name for each in functions if not each.name.startswith("__") and not is_property(each)]


@cache
def verbs() -> set[str]:
    """Return the first words of the docstrings of functions, which are verbs."""
    texts = (each.text for package in PACKAGES for each in passages(package) if each.function)
    return PREDICATES | {text.split(maxsplit=1)[0].strip(".,:").lower() for text in texts if not NO_VERB.match(text)}


def without_verb(names: Iterable[str]) -> list[str]:
    """Return the names that do not begin with a verb."""
    return [name for name in names if name.strip("_").partition("_")[0] not in verbs()]


def prose(path: Path) -> Passage:
    """Return the prose of a document. Each skipped part is replaced by its line breaks."""
    text = SKIPPED.sub(lambda part: "\n" * part[0].count("\n"), path.read_text())
    return Passage(str(path.relative_to(ROOT)), 1, text)


def complaint(texts: Iterable[Passage], long_share: float = LONG_IN_DOCSTRINGS) -> str:
    """Describe the figures over their ceilings, with the places of the worst sentences. Returns "" without any."""
    texts = list(texts)
    found = [sentence for each in texts for sentence in each.sentences()]
    words = sum(len(sentence.split()) for _, sentence in found)
    hits = {name: [(*each, len(pattern.findall(each[1]))) for each in found] for name, pattern in PATTERNS.items()}
    rates = {name: 1000 * sum(count for *_, count in hits[name]) / words for name in PATTERNS}
    lines = []
    for name, rate in rates.items():
        if rate > CEILINGS[name]:
            lines.append(f"{name}: {rate:.2f} in 1,000 words, at most {CEILINGS[name]}")
            lines += worst(
                (count / (5 + len(sentence.split())), place, sentence) for place, sentence, count in hits[name]
            )
    lengths = [(len(sentence.split()), place, sentence) for place, sentence in found]
    long = [each for each in lengths if each[0] > LONG_WORDS]
    if len(long) > long_share * len(lengths):
        lines.append(
            f"over {LONG_WORDS} words: {len(long) / len(lengths):.1%} of the sentences, at most {long_share:.1%}"
        )
        lines += worst(long)
    functions = [each for each in texts if each.function]
    nouns = [each for each in functions if NO_VERB.match(each.text.lstrip())]
    if len(nouns) > NOUN_SHARE * len(functions):
        share = len(nouns) / len(functions)
        lines.append(f"no verb first: {share:.1%} of the functions' docstrings, at most {NOUN_SHARE:.1%}")
        lines += worst((1, f"{each.path}:{each.line}", each.text.strip().splitlines()[0]) for each in nouns)
    return "\n".join(lines)


def worst(ranked: Iterable[tuple[float, str, str]]) -> list[str]:
    """Return a line for each of the worst sentences, of those with a rank over 0."""
    most = sorted((each for each in ranked if each[0]), key=lambda each: -each[0])[:WORST]
    return [f"  {place}: {sentence[:160]}" for _, place, sentence in most]


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_are_plain(package):
    found = complaint(passages(package))
    assert not found, found


def test_documents_are_plain():
    documents = [prose(path) for pattern in DOCUMENTS for path in sorted(ROOT.glob(pattern))]
    found = complaint(documents, LONG_IN_DOCUMENTS)
    assert not found, found


@pytest.mark.parametrize("package", [*PACKAGES, "tests"])
def test_no_docstring_opens_with_a_question(package):
    questions = [
        f"{each.path}:{each.line}: {each.text.strip().splitlines()[0]}"
        for each in passages(package)
        if QUESTION.match(each.text.lstrip())
    ]
    assert questions == []


@pytest.mark.parametrize("package", PACKAGES)
def test_functions_are_named_by_verbs(package):
    names = function_names(package)
    others = without_verb(names)
    assert len(others) <= (1 - VERB_NAMES) * len(names), sorted(others)


# ---------------------------------------------------------------- the measure itself

DIALECT = (
    "The document of a line, whose id is that of its place where it has none. Raises an error where it is none.",
    "That of one submission: what is sent again has the same; where there is none it is judged, and has no place.",
    "The fields in which two evaluations differ; their figures are those of one policy where there is none.",
    "A share of the draws, and each without what is fit, whose seeds are those of the run where it has none, is no "
    "draw of those of which it is told; what it says is kept.",
)
PLAIN = (
    "Parse one line into a document. Without an id, use the line number. Raises an error if the line is malformed.",
    "Find values that occur in a text as whole words. Ignores case and punctuation.",
    "Return the fields that differ between two evaluations. If the result is empty, their figures are comparable.",
    "Serve downloaded parts to engines on other hosts until cancelled. Wait for the parts that are still missing.",
    "Describe how a result deviates from its plan.",
)


def module(path: Path, texts: Iterable[str]) -> Path:
    """Write a module of functions with these docstrings."""
    path.write_text('"""Hold some functions."""\n' + "".join(f'def f():\n    """{each}"""\n' for each in texts))
    return path


def test_the_measure_names_each_construction_and_its_place(tmp_path):
    path = module(tmp_path / "dialect.py", DIALECT)
    found = complaint(docstrings(path))
    for name in [*PATTERNS, f"over {LONG_WORDS} words", "no verb first"]:
        assert re.search(rf"^{name}: ", found, re.MULTILINE), (name, found)
    assert f"{path}:3: The document of a line, whose id is that of its place where it has none." in found


def test_the_measure_accepts_plain_sentences(tmp_path):
    assert complaint(docstrings(module(tmp_path / "plain.py", PLAIN * 10))) == ""


@pytest.mark.parametrize("package", PACKAGES)
def test_the_measure_fails_if_a_twentieth_of_a_package_is_in_the_dialect(package):
    dialect = cycle(DIALECT)
    mixed = [each._replace(text=next(dialect)) if at % 20 == 0 else each for at, each in enumerate(passages(package))]
    assert complaint(mixed)


def test_a_noun_or_a_participle_does_not_name_a_function():
    assert without_verb(["told", "_port", "answered", "read", "_find_port", "is_answered"]) == [
        "told", "_port", "answered",
    ]  # fmt: skip


def test_a_property_may_open_with_a_noun(tmp_path):
    path = tmp_path / "properties.py"
    path.write_text('class A:\n    @property\n    def a(self):\n        """The length of a sentence."""\n')
    assert [each.function for each in docstrings(path)] == [False]


def test_code_headings_and_tables_of_a_document_are_skipped(monkeypatch, tmp_path):
    monkeypatch.setattr(f"{__name__}.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text("# Where\n\nStart it.\n\n```\nwhere; what\n```\n\n* One item.\n\n  | what | where |\n  |---|---|\n")
    assert list(prose(page).sentences()) == [("page.md:3", "Start it."), ("page.md:9", "* One item.")]


def test_items_of_lists_and_rows_of_tables_are_sentences_of_their_own():
    text = "Return one of these:\n\n* the first\n* the second\n\nkeys    the keys\nvalues  the values\n"
    assert list(Passage("a.py", 3, text).sentences()) == [
        ("a.py:3", "Return one of these:"),
        ("a.py:5", "* the first"),
        ("a.py:6", "* the second"),
        ("a.py:8", "keys the keys"),
        ("a.py:9", "values the values"),
    ]
