"""Measures of a program with tools, from its syntax tree: tools, conditions in criteria, and tools that may refuse.

docs/metrics.md ("Measures of a program") defines them.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from spade.config import DOMAINS

PREFIX = "tool_"
_CRITERIA = "_message_criteria"
_CHANGES = ("append", "add", "extend", "insert", "update", "pop", "popitem", "remove", "discard", "clear", "setdefault")

_Function = ast.FunctionDef | ast.Lambda


@dataclass(frozen=True)
class ToolMeasures:
    """Measures of one program with tools."""

    tools: int
    """Number of tools."""

    conditions: float | None
    """Mean number of conditions of a criterion. None if no criterion is found."""

    guarded: bool
    """True if some tool changes the state, but returns in a branch of an `if` without changing it."""


def has_tools(program: ast.ClassDef) -> bool:
    """Return True for a class that extends ToolUseBaseEnv."""
    return any(isinstance(base, ast.Name) and base.id == DOMAINS["tools"].base for base in program.bases)


def measure_tools(program: ast.ClassDef) -> ToolMeasures:
    """Measure a class with tools."""
    methods = {node.name: node for node in program.body if isinstance(node, ast.FunctionDef)}
    tools = [method for name, method in methods.items() if name.startswith(PREFIX)]
    counts = [_count_conditions(criterion) for criterion in _find_criteria(methods)]
    mean = sum(counts) / len(counts) if counts else None
    return ToolMeasures(len(tools), mean, any(map(_is_guarded, tools)))


# ---------------------------------------------------------------- criteria


def _find_criteria(methods: Mapping[str, ast.FunctionDef]) -> list[_Function]:
    """Return the criteria, each function once."""
    found: dict[int, _Function] = {}
    for method in methods.values():
        local: dict[str, list[ast.AST]] = {}
        for name, value in _find_bound(method):
            local.setdefault(name, []).append(value)
        todo = local.pop(f"self.{_CRITERIA}", [])
        while todo:
            for each in _find_functions(todo.pop(), methods, local, todo):
                found.setdefault(id(each), each)
    return list(found.values())


def _find_functions(
    node: ast.AST, methods: Mapping[str, ast.FunctionDef], local: dict[str, list[ast.AST]], todo: list[ast.AST]
) -> Iterator[_Function]:
    """Yield the functions in an expression. Moves the values of its local variables from `local` to `todo`."""
    match node:
        case ast.Lambda() | ast.FunctionDef():
            yield node
        case ast.Name(id=name):
            todo += local.pop(name, [])
        case ast.Attribute(value=ast.Name(id="self"), attr=name) if name in methods:
            yield methods[name]
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _find_functions(child, methods, local, todo)


def _find_bound(method: ast.FunctionDef) -> Iterator[tuple[str, ast.AST]]:
    """Yield the values assigned to the local names of a method, and to its attributes as "self.name"."""
    for node in ast.walk(method):
        match node:
            case ast.FunctionDef(name=name) if node is not method:
                yield name, node
            case ast.Assign(targets=targets, value=value):
                yield from ((name, value) for target in targets if (name := _name(target)))
            case ast.AugAssign(target=target, value=value) | ast.AnnAssign(target=target, value=ast.expr() as value):
                yield _name(target), value
            case ast.Call(func=ast.Attribute(value=target, attr="append" | "extend" | "insert"), args=values):
                yield from ((_name(target), value) for value in values)


def _name(target: ast.expr) -> str:
    match target:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return f"self.{name}"
    return ""


def _count_conditions(criterion: _Function) -> int:
    count = 0
    for node in ast.walk(criterion):
        match node:
            case ast.Compare(ops=operators):
                count += len(operators)
            case ast.BoolOp(values=values):
                count += len(values) - 1
            case ast.UnaryOp(op=ast.Not()):
                count += 1
    return count


# ---------------------------------------------------------------- tools that may refuse


def _is_guarded(tool: ast.FunctionDef) -> bool:
    """Return True if a tool changes the state, but returns in a branch of an `if` without changing it."""
    held = _find_holding_names(tool)
    if not _has_change([tool], held):
        return False
    branches = (branch for node in ast.walk(tool) if isinstance(node, ast.If) for branch in (node.body, node.orelse))
    return any(
        any(isinstance(node, ast.Return) for statement in branch for node in ast.walk(statement))
        and not _has_change(branch, held)
        for branch in branches
    )


def _find_holding_names(tool: ast.FunctionDef) -> set[str]:
    """Return `self` and the local names that hold a part of the instance. Reads the assignments in text order."""
    held = {"self"}
    named = [node for node in ast.walk(tool) if isinstance(node, ast.Assign | ast.NamedExpr | ast.For)]
    for node in sorted(named, key=lambda node: (node.lineno, node.col_offset)):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
                | ast.For(target=ast.Name(id=name), iter=value)
            ) if _find_root(value) in held:
                held.add(name)
    return held


def _find_root(node: ast.expr) -> str:
    """Return the name at the beginning of `name.attribute[item].get(key)`, or "" without one."""
    while True:
        match node:
            case ast.Name(id=name):
                return name
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Call(func=ast.Attribute(value=inner)):
                node = inner
            case _:
                return ""


def _has_change(part: list[ast.stmt] | list[ast.FunctionDef], held: set[str]) -> bool:
    """Return True if a part of a tool changes the value of a held name."""
    return any(_find_root(target) in held for each in part for node in ast.walk(each) for target in _find_changed(node))


def _find_changed(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            yield from (target for target in targets if not isinstance(target, ast.Name))
        case ast.AugAssign(target=target) if not isinstance(target, ast.Name):
            yield target
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _CHANGES:
            yield value
