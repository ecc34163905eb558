r"""Double literal braces of f-strings that a program forgot to double: `f"Answer with \boxed{action}"`.

A brace is doubled only if this is certainly right: the text does not compile or its line always raises, and the braces
do not hold faulty code. Line numbers do not change. This module parses the program, so it runs only in a child.
"""

import ast
import dis
import re
from collections.abc import Container, Sequence
from contextlib import suppress
from types import CodeType

from .fstrings import (
    LONGEST,
    Literal,
    UncertainError,
    double_characters,
    find_brace,
    find_field_end,
    find_fields,
    find_literals,
)
from .scopes import Names, is_unseen

REPAIR = "f-string braces"
FIELDS = 1_000
"""If a program that does not compile has more f-string fields than this, it is left unchanged."""
ROUNDS = 3
"""The largest number of rounds of `repair_fields`. A field in the format of a repaired field is repaired in the next
round."""

_UNREADABLE = (SyntaxError, ValueError, MemoryError, RecursionError)
_WORDS = r"[^\S\n]*+(?:[A-Za-z0-9_]++[^\S\n]*+)(?:[,|/-][^\S\n]*+[A-Za-z0-9_]++[^\S\n]*+)*+"
_TEXT = r"""\s*+(?:"[^"\\{}\n]*+"|'[^'\\{}\n]*+')\s*+"""
_NAMED = re.compile(r"(?<!\{)\{(" + _WORDS + r")(?:\}|: )")
_MAPPING = re.compile(r"(?<!\{)\{" + _TEXT + ": ")
_INSIDE = re.compile(r"[^{}\n]*+(?=\})")
_NESTED = re.compile(r"\{[^{}]*+\}")
_WORD = re.compile(r"\w+")
_COMMAND = re.compile(r"\\[A-Za-z]{3,}\Z")


def compile_program(source: str, file: str, known: Sequence[Container[str]]) -> tuple[CodeType, str]:
    """Compile a program after doubling forgotten f-string braces. Return the code and the repaired text.

    `known` lists names defined outside the program. Raises the errors of `compile` for the original text.
    """
    code, text = None, source
    try:
        code = _compile(source, file)
    except SyntaxError:
        text = repair_braces(source)
        with suppress(*_UNREADABLE):
            code = _compile(text, file) if text != source else None
        if code is None:
            raise
    for _ in range(ROUNDS):
        better = repair_fields(text, code, known)
        if better == text:
            break
        with suppress(*_UNREADABLE):
            code, text = _compile(better, file), better
    return code, text


def _compile(source: str, file: str) -> CodeType:
    return compile(source, file, "exec", dont_inherit=True)


# ---------------------------------------------------------------- programs that do not compile


def repair_braces(source: str) -> str:
    """Double the braces that do not compile. Return the text unchanged if one of them is in doubt."""
    offsets: list[int] = []
    looked_at = 0
    try:
        for literal in find_literals(source):
            looked_at += _find_literal_braces(source, literal, FIELDS - looked_at, offsets)
    except UncertainError:
        return source
    return double_characters(source, offsets)


def _find_literal_braces(source: str, literal: Literal, most: int, offsets: list[int]) -> int:
    """Add the offsets of one f-string's braces that must be doubled. Returns the number of fields read."""
    once: list[bool] = []  # for each open literal brace: True if it was written as a single brace
    at, count = literal.start, 0
    while mark := find_brace(source, literal, at):
        at, start = mark.end(), mark.start()
        if mark[0] == "{":
            count += 1
            end = find_field_end(source, literal, start)
            if count > most:
                raise UncertainError
            if end > 0 and _is_field(literal, source[start:end]):
                at = end
                continue
            _check_text(source[start + 1 : end - 1] if end > 0 else _read_words(source, start + 1, literal.end))
        elif mark[0] == "{{" or (mark[0] == "}}" and not (once and once[-1])):
            if mark[0] == "{{":
                once.append(False)
            elif once:
                once.pop()
            continue
        elif not once:
            raise UncertainError
        offsets.append(start)
        at = start + 1
        if mark[0] == "{":
            once.append(True)
        else:
            once.pop()
    return count


def _is_field(literal: Literal, text: str) -> bool:
    """Return True if the compiler reads the text, in an f-string with the quotes of `literal`, as one field."""
    tree = _try_parse(f"{literal.opening}{text}{literal.quotes}")
    values = tree.values if isinstance(tree, ast.JoinedStr) else []
    return sum(isinstance(value, ast.FormattedValue) for value in values) == 1


def _read_words(source: str, start: int, end: int) -> str:
    """Return the text before the next brace, which must be a closing one. Raises UncertainError otherwise."""
    words = _INSIDE.match(source, start, min(end, start + LONGEST))
    if not words or words[0].count("(") != words[0].count(")") or words[0].count("[") != words[0].count("]"):
        raise UncertainError
    return words[0]


def _check_text(inside: str) -> None:
    """Raise UncertainError if the text may be code of a later Python, or code with a typo."""
    quoted = "'" in inside or '"' in inside
    if "self" in _WORD.findall(inside) or (quoted and "\\" in inside):
        raise UncertainError
    if inside.strip() and _try_parse(f"({inside}\n)") is not None:
        raise UncertainError


def _try_parse(expression: str) -> ast.expr | None:
    try:
        return ast.parse(expression, mode="eval").body
    except _UNREADABLE:
        return None


# ---------------------------------------------------------------- programs that compile


def repair_fields(source: str, code: CodeType, known: Sequence[Container[str]]) -> str:
    """Double the braces of fields that always raise when they are evaluated.

    Such a field is a name without a value, a list of such names, or the text of a mapping: `f'{"a": 1}'`.
    """
    try:
        if not _is_suspect(source, code, known):
            return source
        names, places = Names(ast.parse(source)), find_fields(source)
    except (*_UNREADABLE, UncertainError):
        return source
    if len(names.fields) != len(places):
        return source
    offsets: list[int] = []
    for scope, (start, end) in zip(names.fields, places, strict=True):
        named = _NAMED.match(source, start, end)
        if named and not names.dynamic:
            words = _find_names(named[1])
            of_latex = _COMMAND.search(source, max(start - 20, 0), start)
            forgot_self = not of_latex and not names.members.isdisjoint(words)
            raises = bool(words) and not forgot_self and is_unseen(words, scope, known)
        else:
            raises = _is_mapping(source, start, end)
        if raises:
            offsets += (start, end - 1)
    return double_characters(source, offsets)


def _is_suspect(source: str, code: CodeType, known: Sequence[Container[str]]) -> bool:
    """Return False if `repair_fields` would surely change nothing. This check is cheap, since it runs at every load."""
    # A fresh process pays for every page that it writes, so search the whole text before its strings.
    if _MAPPING.search(source) and any(_MAPPING.search(source, each.start, each.end) for each in find_literals(source)):
        return True
    words = {word for listed in _NAMED.findall(source) for word in _find_names(listed)}
    names = {word for word in words if not any(word in each for each in known)}
    read = _find_globals_read(code, names) if names else names
    return bool(read) and not read <= _find_bound_names(code)


def _find_names(words: str) -> set[str]:
    """Return the words that are names or keywords. `known` has all keywords, so a field with one stays unchanged."""
    return {word for word in _WORD.findall(words) if not word[0].isdigit()}


def _find_globals_read(code: CodeType, names: set[str]) -> set[str]:
    """Return the names that any code of the program reads as a global."""
    read: set[str] = set()
    codes = [code]
    for each in codes:
        codes += [constant for constant in each.co_consts if isinstance(constant, CodeType)]
        if not names.isdisjoint(each.co_names):
            loads = (step.argval for step in dis.get_instructions(each) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
            read.update(names.intersection(loads))
    return read


def _find_bound_names(module: CodeType) -> set[str]:
    """Return the names that the module's own code binds."""
    return {step.argval for step in dis.get_instructions(module) if step.opname == "STORE_NAME"}


def _is_mapping(source: str, start: int, end: int) -> bool:
    """Return True for a field with a string and a format that no string supports, such as `{"a": 1}`."""
    text = _MAPPING.match(source, start, end)
    if text is None:
        return False
    form = source[text.end() : end - 1]
    never = form[:1] not in ("<", ">", "=", "^", "{") or any(mark in _NESTED.sub("", form) for mark in "'\"")
    return never or _is_mapping(source, text.end(), end - 1)
