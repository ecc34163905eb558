"""Every setting with its documentation, read from the source of the sections: a literal below the setting."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec.inspect

from spade.config.allowed import fields
from spade.config.sections import Config, Section


class Setting(msgspec.Struct, frozen=True):
    """One setting. `doc`: one paragraph, "" if there is none."""

    name: str
    type: msgspec.inspect.Type
    default: Any
    doc: str


class Described(msgspec.Struct, frozen=True):
    """A section. `doc`: its paragraphs."""

    name: str
    doc: str
    settings: tuple[Setting, ...]


def sections() -> tuple[Described, ...]:
    """All sections and settings, in their order."""
    return tuple(_described(name, type(getattr(Config(), name))) for name in Config.__struct_fields__)


def _described(section_name: str, section: type[Section]) -> Described:
    docs = dict(_field_docs(section))
    settings = tuple(
        Setting(name, field.type, _default(field), docs.get(name, "")) for name, field in fields(section).items()
    )
    return Described(section_name, inspect.getdoc(section) or "", settings)


def _default(field: msgspec.inspect.Field) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _field_docs(section: type[Section]) -> Iterator[tuple[str, str]]:
    """Name and documentation of the settings that have one."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(section)))
    assert isinstance(tree.body[0], ast.ClassDef)
    body = tree.body[0].body
    for field, below in pairwise(body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(doc))):
                yield name, " ".join(doc.split())
