"""A hostile program: an attack, and what the host must see of it.

In sources `$FOLDER`, `$ROOT`, `$VICTIM`, `$PORT` and `$NAME` stand for what is there to be attacked.
"""

from dataclasses import dataclass

from spade.protocol import ToolCall
from tests.actors.odd_programs import program
from tests.actors.tool_programs import tools

BREACH = "breach"
"""The words of a program whose attack went through."""

ANSWERED = "answered"
"""Seen where nothing is to be refused: the attack has no effect, and the program says so."""

ANYWHERE = frozenset({"namespaces", "landlock", "seccomp"})


@dataclass(frozen=True)
class Hostile:
    """`sees`: the kinds of fault, or ANSWERED, of which the host must see one; `tiers` in which that is promised."""

    name: str
    source: str
    sees: frozenset[str]
    tiers: frozenset[str] = ANYWHERE
    calls: tuple[ToolCall, ...] = ()
    """Made in each turn; after it the state is inspected."""
    libraries: bool = False
    """It needs a base class of a library."""


def attack(name: str, code: str, *sees: str, where: str = "step", module: str = "") -> Hostile:
    """Code that raises or kills the process where it is refused; that it goes on is a breach."""
    breach = f'"{BREACH}", 0.0, True, False, {{}}'
    parts = {"module": module, where: code}
    return Hostile(name, program(**parts, result=breach), frozenset(sees or {"exception"}))


def answer(name: str, result: str, *sees: str, code: str = "", module: str = "") -> Hostile:
    """A step that answers with this expression after this code."""
    return Hostile(name, program(module=module, step=code, result=result), frozenset(sees))


def harmless(name: str, check: str, code: str = "", module: str = "") -> Hostile:
    """After the code, `check` holds where the attack went through; else nothing has happened."""
    result = f'"{BREACH}" if {check} else "held", 0.0, True, False, {{}}'
    return Hostile(name, program(module=module, step=code, result=result), frozenset({ANSWERED}))


def tool_attack(name: str, *sees: str, **parts: str) -> Hostile:
    """A program with tools of which `work` and `look` are called in each turn."""
    return Hostile(name, tools(**parts), frozenset(sees), calls=(ToolCall("work"), ToolCall("look")))
