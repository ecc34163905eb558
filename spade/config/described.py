"""Read the documentation of every setting from the source of the sections: the string below each setting."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import msgspec.inspect

from spade.config.allowed import list_fields
from spade.config.sections import Config, Section


class Setting(msgspec.Struct, frozen=True):
    """One setting of a section."""

    name: str
    """Name of the field."""
    type: msgspec.inspect.Type
    """Type with its bounds, as msgspec describes it."""
    default: Any
    """Default value."""
    doc: str
    """Documentation as one paragraph, "" if it is missing."""


class DescribedSection(msgspec.Struct, frozen=True):
    """One section of the configuration."""

    name: str
    """Name of the section in TOML."""
    doc: str
    """Docstring of the section, in paragraphs."""
    settings: tuple[Setting, ...]
    """The section's settings, in order."""


def list_sections() -> tuple[DescribedSection, ...]:
    """Return all sections with their settings, in the order of the config."""
    return tuple(_describe_section(name, type(getattr(Config(), name))) for name in Config.__struct_fields__)


def _describe_section(section_name: str, section: type[Section]) -> DescribedSection:
    docs = dict(_read_field_docs(section))
    settings = tuple(
        Setting(name, field.type, _get_default(field), docs.get(name, ""))
        for name, field in list_fields(section).items()
    )
    return DescribedSection(section_name, inspect.getdoc(section) or "", settings)


def _get_default(field: msgspec.inspect.Field) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _read_field_docs(section: type[Section]) -> Iterator[tuple[str, str]]:
    """Yield (name, documentation) of each documented setting, with line breaks removed."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(section)))
    assert isinstance(tree.body[0], ast.ClassDef)
    body = tree.body[0].body
    for field, below in pairwise(body):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(doc))):
                yield name, " ".join(doc.split())
