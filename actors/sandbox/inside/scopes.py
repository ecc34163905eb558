"""Find the names that each part of a program can see. A name counts as seen if this is uncertain."""

import ast
from collections.abc import Container, Sequence
from dataclasses import dataclass, field

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_DYNAMIC = {"__builtins__", "builtins", "exec", "globals", "locals", "modules", "vars"}
"""A program that uses one of these names may bind names that do not appear in its text."""


@dataclass(frozen=True)
class Scope:
    """A function, a class body or the module: its bound names, and the functions around it up to the module."""

    around: "tuple[Scope, ...]" = ()
    is_class: bool = False
    names: set[str] = field(default_factory=set)

    def inner(self, is_class: bool) -> "Scope":
        """Make a new scope in this scope. Functions in a class body do not see the names that the body binds."""
        return Scope(self.around if self.is_class else (*self.around, self), is_class)

    def sees(self, name: str) -> bool:
        return any(name in scope.names for scope in (self, *self.around))


class Names:
    """The names that a program binds, and the scopes of the fields of its f-strings.

    `fields` has the scope of each outermost field in the order of the text. `members` are the names of attributes:
    names after a dot, and names that a class body binds. `dynamic` is True if the program may bind names that are not
    in its text.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.members: set[str] = set()
        self.dynamic = False
        self._module = Scope()
        self._strings: list[tuple[int, int, list[Scope]]] = []
        self._left: list[tuple[ast.AST, Scope]] = [(tree, self._module)]
        while self._left:
            self._read(*self._left.pop())
        self.fields = [scope for *_, scopes in sorted(self._strings, key=lambda one: one[:2]) for scope in scopes]

    def _read(self, node: ast.AST, scope: Scope) -> None:
        for name in self._bound(node):
            scope.names.add(name)
            if scope.is_class:
                self.members.add(name)
        if isinstance(node, ast.JoinedStr):
            count = sum(isinstance(value, ast.FormattedValue) for value in node.values)
            self._strings.append((node.lineno, node.col_offset, [scope] * count))
            # Nested fields are not outermost, but their bound names count.
            inner = (each for value in node.values for each in ast.walk(value) if not isinstance(each, ast.JoinedStr))
            scope.names.update(name for each in inner for name in self._bound(each))
            return
        body: list[ast.AST] = []
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            own = scope.inner(isinstance(node, ast.ClassDef))
            if isinstance(node, _FUNCTIONS):
                own.names.update(each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg))
            body = [node.body] if isinstance(node, ast.Lambda) else [*node.body]
            self._left += [(each, own) for each in body]
        inside = set(map(id, body))
        self._left += [(each, scope) for each in ast.iter_child_nodes(node) if id(each) not in inside]

    def _bound(self, node: ast.AST) -> list[str]:
        """Return the names that this node itself binds in its scope."""
        if isinstance(node, ast.Name):
            self.dynamic |= node.id in _DYNAMIC
            return [] if isinstance(node.ctx, ast.Load) else [node.id]
        if isinstance(node, ast.Attribute):
            self.dynamic |= node.attr in _DYNAMIC
            self.members.add(node.attr)
        if isinstance(node, ast.Global):
            self._module.names.update(node.names)
        if isinstance(node, ast.alias):
            self.dynamic |= node.name in ("*", *_DYNAMIC)
        values = (getattr(node, part, None) for part in ("name", "asname", "rest"))
        return [value.partition(".")[0] for value in values if isinstance(value, str)]


def is_unseen(words: set[str], scope: Scope, known: Sequence[Container[str]]) -> bool:
    """Return True if none of the names can have a value in this scope."""
    return not any(scope.sees(word) or any(word in each for each in known) for word in words)
