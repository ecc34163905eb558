"""Measures of one program, from its syntax tree: its lines, and the variables it hides from the player. Pure.

docs/metrics.md ("Measures of a program") defines them.
"""

import ast
from collections.abc import Iterator, Mapping

from actors.text.measures.tools import has_tools, measure_tools
from spade.protocol import Measures

_SETTERS = ("__init__", "reset")
_FILLERS = ("append", "add", "extend", "insert", "update")
_UNSEEN = "solution"
# Characters; a longer program is not measured. An env-runner waits for the measures, and their time is quadratic in the
# depth of a sum.
_LONGEST = 1 << 16


def measure(source: str, name: str) -> Measures:
    """Count a program's lines of code, and measure its class `name`: its hidden variables, or its tools.

    Only the lines are counted if the source is over 65,536 characters or is not valid Python, for example because it
    has braces that the sandbox would repair. A program with tools has no hidden variables: its tools show its state.
    """
    lines = [line for line in map(str.strip, source.splitlines()) if line and not line.startswith("#")]
    if len(source) > _LONGEST:
        return Measures(len(lines))
    try:
        classes = [
            node
            for node in ast.walk(ast.parse(source.removeprefix("\ufeff")))
            if isinstance(node, ast.ClassDef) and node.name == name
        ]
        if not classes:
            return Measures(len(lines))
        if has_tools(classes[-1]):
            used = measure_tools(classes[-1])
            return Measures(len(lines), tools=used.tools, conditions=used.conditions, guarded=used.guarded)
        return Measures(len(lines), len(find_hidden_variables(classes[-1])))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Measures(len(lines))


def find_hidden_variables(program: ast.ClassDef) -> set[str]:
    """Return the attributes of a class that get a value at the start and that no text of the class shows."""
    methods = {node.name: node for node in program.body if isinstance(node, ast.FunctionDef)}
    holding = {name for method in _find_setting_methods(methods) for name in _find_given(method)}
    return holding.difference(*(_find_shown(method) for name, method in methods.items() if name != _UNSEEN))


def _read_own_name(node: ast.AST) -> str:
    """Return the name in `self.name`, or "" for another node."""
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
    return ""


# ---------------------------------------------------------------- attributes that hold a value


def _find_setting_methods(methods: Mapping[str, ast.FunctionDef]) -> list[ast.FunctionDef]:
    """Return the methods that set up an instance: `__init__`, `reset`, and the methods that they call."""
    names = [name for name in _SETTERS if name in methods]
    for name in names:  # the list grows during the loop
        called = {_read_own_name(node.func) for node in ast.walk(methods[name]) if isinstance(node, ast.Call)}
        names += sorted((called & methods.keys()).difference(names))
    return [methods[name] for name in names]


def _find_given(method: ast.FunctionDef) -> Iterator[str]:
    """Yield the attributes to which a method assigns a value. Leaves out values that do not count (`_is_start`)."""
    parameters = {argument.arg for argument in (*method.args.args, *method.args.kwonlyargs)}
    for node in ast.walk(method):
        match node:
            case ast.Assign(targets=targets, value=value) if not _is_start(value, parameters):
                given = targets
            case ast.AnnAssign(target=target, value=ast.expr() as value) if not _is_start(value, parameters):
                given = [target]
            case ast.For(target=target) | ast.AugAssign(target=target):
                given = [target]
            case ast.Call(func=ast.Attribute(value=target, attr=name)) if name in _FILLERS:
                given = [target]
            case _:
                continue
        yield from (place for each in given for place in _find_places(each))


def _find_places(target: ast.expr) -> Iterator[str]:
    """Yield the attributes that an assignment to `target`, or to an item of it, changes."""
    match target:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            yield from (place for part in parts for place in _find_places(part))
        case ast.Subscript(value=value) | ast.Starred(value=value):
            yield from _find_places(value)
        case _ if name := _read_own_name(target):
            yield name


def _is_start(value: ast.expr, parameters: set[str]) -> bool:
    """Return True for a value that does not count: a false or empty one, a plain parameter, or a random generator."""
    match value:
        case ast.Constant(value=constant):
            return not constant
        case ast.List(elts=[]) | ast.Tuple(elts=[]) | ast.Dict(keys=[]):
            return True
        case ast.Call(func=ast.Name(id="list" | "dict" | "set" | "tuple" | "str"), args=[]):
            return True
        case ast.Call(func=ast.Name(id="Random") | ast.Attribute(attr="Random")):
            return True
        case ast.Name(id=name):
            return name in parameters
    return False


# ---------------------------------------------------------------- values that a text shows


def _find_shown(method: ast.FunctionDef) -> set[str]:
    """Return the attributes that the texts of a method show, and the local names, as "local NAME"."""
    shown = {name for text in _find_texts(method) for name in _find_held(text)}
    behind: dict[str, list[set[str]]] = {}  # what each local name may hold
    for target, value in (copy for node in ast.walk(method) for copy in _find_copies(node)):
        held = set(_find_held(value))
        for part in ast.walk(target):
            if isinstance(part, ast.Name):
                behind.setdefault(f"local {part.id}", []).append(held)
    todo = list(shown)
    while todo:
        for held in behind.get(todo.pop(), ()):
            new = held - shown
            held.clear()  # follow each value only once, even if several names hold it
            shown |= new
            todo += new
    return shown


def _find_texts(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the outermost texts in a node, and the first value of a returned tuple, which is the observation."""
    if isinstance(node, ast.Compare):
        return
    if _is_text(node):
        yield node  # type: ignore[misc]
        return
    if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and node.value.elts:
        yield node.value.elts[0]
    for child in ast.iter_child_nodes(node):
        yield from _find_texts(child)


def _is_text(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr() | ast.Constant(value=str()):
            return True
        case ast.Call(func=ast.Attribute(value=value, attr="join" | "format")):
            return _is_text(value)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _is_text(left) or _is_text(right)
        case ast.BinOp(left=left, op=ast.Mod()):
            return _is_text(left)
    return False


def _find_copies(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each assigned name or loop variable, with the name or attribute that it copies or iterates over."""
    match node:
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            yield target, value
        case ast.Assign(targets=[target], value=ast.Name() | ast.Attribute() as value):
            yield target, value


def _find_held(node: ast.AST) -> Iterator[str]:
    """Yield the attributes, and local names as "local NAME", that a text with this node shows."""
    if name := _read_own_name(node):
        yield name
        return
    match node:
        case ast.Name(id=name):
            yield f"local {name}"
        case (
            ast.Compare()
            | ast.UnaryOp()
            | ast.Subscript()
            | ast.Call(func=ast.Name(id="len" | "sum" | "abs" | "any" | "all"))
        ):
            return
        case ast.BinOp() if not _is_text(node):
            return
        case ast.IfExp(body=body, orelse=orelse):
            yield from (*_find_held(body), *_find_held(orelse))
        case ast.comprehension(iter=value):
            yield from _find_held(value)
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _find_held(child)
