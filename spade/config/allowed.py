"""Describe the values that a setting's type allows. Error lines and docs/config.md show these words."""

from collections.abc import Collection, Iterator

import msgspec
from msgspec import inspect

from spade.config.sections import Section
from spade.config.sections.bounds import NOT_BLANK, RANGE


def list_fields(section: type[Section]) -> dict[str, inspect.Field]:
    """Return the settings of a section by name, with their types, in the order of the section."""
    return {field.name: field for field in inspect.type_info(section).fields}  # type: ignore[attr-defined]


def describe_allowed(type_: inspect.Type, omitted: Collection[float] = ()) -> str:
    """Describe the values of a setting's type as TOML writes them. Bounds in `omitted` are left out."""
    *most, last = _describe_alternatives(type_, omitted)
    return f"{', '.join(most)} or {last}" if most else last


def _describe_alternatives(type_: inspect.Type, omitted: Collection[float]) -> Iterator[str]:
    match type_:
        case inspect.BoolType():
            yield "true or false"
        case inspect.IntType():
            yield f"a whole number{_describe_bounds(type_, omitted)}"
        case inspect.FloatType():
            yield f"a number{_describe_bounds(type_, omitted)}"
        case inspect.StrType(pattern=pattern):
            yield {NOT_BLANK: "a text that is not blank", RANGE: 'a range such as "1..8"'}.get(pattern or "", "a text")
        case inspect.LiteralType(values=values):
            for value in values:
                yield msgspec.json.encode(value).decode()
        case inspect.NoneType():
            yield "left out"
        case inspect.UnionType(types=types):
            for each in types:
                yield from _describe_alternatives(each, omitted)
        case inspect.VarTupleType(item_type=item, min_length=least):
            yield f"a list{f' of {least} or more' if least else ''}, each {describe_allowed(item, omitted)}"
        case inspect.DictType(key_type=key, value_type=value):
            names = "of texts" if isinstance(key, inspect.StrType) else f"with any of {describe_allowed(key)}"
            yield f"a table {names}, each {describe_allowed(value, omitted)}"
        case inspect.TupleType(item_types=(item, *others)) if others and all(other == item for other in others):
            yield f"a list of {len(others) + 1}, each {describe_allowed(item, omitted)}"
        case inspect.TupleType(item_types=items):
            yield f"[{', '.join(describe_allowed(item, omitted) for item in items)}]"
        case _:
            raise TypeError(f"cannot describe the type {type_}")


def _describe_bounds(number: inspect.IntType | inspect.FloatType, omitted: Collection[float]) -> str:
    bounds = {
        " from": number.ge,
        " over": number.gt,
        " to" if number.ge is not None else ", at most": number.le,
        ", under": number.lt,
    }
    return "".join(f"{word} {_format_bound(bound)}" for word, bound in bounds.items() if bound not in {None, *omitted})


def _format_bound(bound: float | None) -> str:
    """Format a bound as TOML writes it."""
    return f"{bound:_}" if isinstance(bound, int) else f"{bound:g}"
