"""Tables with filters, an order and pages. The address of a page has all three. Pure."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from replay.inspect.pool import FigureBounds
from spade.text import as_line

ROWS = 100
"""Rows of a page."""
LONGEST_CELL = 120

Query = Mapping[str, str]
Row = Any


class Column(NamedTuple):
    """A column."""

    name: str
    """The name of this column in the address."""

    title: str
    """The title."""

    value: Callable[[Row], float | str | None]
    """Returns the value of a row by which the table is sorted. Rows with None come last."""

    shown: Callable[[Row], str] | None = None
    """Returns the text of the cell. None shows the value itself."""

    def show(self, row: Row) -> str:
        """Return the text of the cell in one line."""
        value = self.value(row)
        text = "–" if value is None else str(value) if self.shown is None else self.shown(row)
        return as_line(text, LONGEST_CELL)


class Field(NamedTuple):
    """A field of the form with the filters."""

    name: str
    """The name of this field in the address."""

    label: str
    """The label."""

    value: str
    """The present value. "" lets every row pass."""

    options: tuple[str, ...] = ()
    """The values to choose from. Without options, a text or number is typed."""

    number: bool = False
    """True if a number is typed."""


class ColumnHead(NamedTuple):
    """The head of a column."""

    title: str
    """The title."""

    link: str
    """The address of the table in descending order of this column, or in ascending order if it is descending now."""

    order: str
    """The present order by this column: "ascending", "descending" or ""."""


class TablePage(NamedTuple):
    """One page of a table."""

    heads: tuple[ColumnHead, ...]
    """The heads of the columns."""

    rows: tuple[tuple[str, tuple[str, ...]], ...]
    """For each row the address of its own page, and its cells."""

    fields: tuple[Field, ...]
    """The fields of the form."""

    says: str
    """The numbers of the rows shown and found, in words."""

    before: str
    """The address of the page before this one, or ""."""

    after: str
    """The address of the page after this one, or ""."""


def make_table(
    rows: Iterable[Row],
    columns: Sequence[Column],
    fields: Sequence[Field],
    query: Query,
    page_of: str,
    id_of: Callable[[Row], str],
) -> TablePage:
    """Sort rows as the query says, and return the page that it asks for.

    If the query names no order, the rows keep their order. `page_of` names the page that shows one row, by its id.
    """
    found, by = list(rows), query.get("sort", "")
    name, falling = by.removeprefix("-"), by.startswith("-")
    column = next((each for each in columns if each.name == name), None)
    if column is not None:
        known = [(value, row) for row in found if (value := column.value(row)) is not None]
        known.sort(key=lambda pair: pair[0], reverse=falling)
        found = [row for _, row in known] + [row for row in found if column.value(row) is None]
    pages = max(math.ceil(len(found) / ROWS), 1)
    page = min(max(read_count(query, "page"), 1), pages)
    shown = found[(page - 1) * ROWS : page * ROWS]
    heads = tuple(
        ColumnHead(
            each.title,
            make_link(query, sort=each.name if by == f"-{each.name}" else f"-{each.name}", page=""),
            "" if each is not column else "descending" if falling else "ascending",
        )
        for each in columns
    )
    first, own = (page - 1) * ROWS, {"run": query.get("run", "")}
    return TablePage(
        heads,
        tuple(
            (f"{page_of}{make_link(own, id=id_of(row))}", tuple(each.show(row) for each in columns)) for row in shown
        ),
        tuple(fields),
        f"{first + 1:,} to {first + len(shown):,} of {len(found):,}" if found else "none found",
        make_link(query, page=str(page - 1)) if page > 1 else "",
        make_link(query, page=str(page + 1)) if page < pages else "",
    )


def make_field(query: Query, name: str, label: str, options: tuple[str, ...] = (), number: bool = False) -> Field:
    """Return a field with its value in the query."""
    return Field(name, label, query.get(name, ""), options, number)


def make_link(query: Query, **changed: str) -> str:
    """Return the address of the same page with changed parameters. "" removes a parameter."""
    words = {name: value for name, value in {**query, **changed}.items() if value}
    return f"?{urlencode(words)}"


def read_count(query: Query, name: str) -> int:
    """Return the number under `name` in the query, or 0 without a number."""
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def read_bounds(query: Query, name: str) -> FigureBounds | None:
    """Return the bounds of a figure: the numbers under `name`_from and `name`_to. Returns None if both are missing."""
    low, high = (_read_number(query.get(f"{name}_{end}", "")) for end in ("from", "to"))
    if low is None and high is None:
        return None
    return FigureBounds(-math.inf if low is None else low, math.inf if high is None else high)


def _read_number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
