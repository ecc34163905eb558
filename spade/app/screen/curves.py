"""Evaluations of several policies of a run as a curve: a table with one row for each policy."""

from collections.abc import Iterable, Iterator

from spade.app.screen.evaluations import MeasuredSuite, list_notes
from spade.estimates import Difference
from spade.evaluations import Summary
from spade.text import as_line

_NAME = 16  # width of the column of policy names, in characters


def format_curves(measured: Iterable[MeasuredSuite]) -> str:
    """Tabulate the measurements suite by suite. The policy to which all others are compared comes first."""
    suites: dict[str, list[MeasuredSuite]] = {}
    for each in measured:
        suites.setdefault(each.rules.suite, []).append(each)
    return "\n\n".join("\n".join(_format_curve(rows)) for rows in suites.values())


def _format_curve(rows: list[MeasuredSuite]) -> Iterator[str]:
    first = rows[0]
    protocol, before = first.rules.protocol, first.against
    yield f"{as_line(first.rules.suite, 60)}@{protocol.name}, {first.rules.items} items × {protocol.samples}"
    named = "" if before is None else f"difference to {as_line(before.policy, _NAME)}, paired by item"
    yield f"  {'policy':<{_NAME}} {'mean':>6}  {'95 %':<16} {named}".rstrip()
    if before is not None:
        yield _format_row(before.policy, before.summary, "")
    for each in rows:
        yield _format_row(
            each.policy, each.summary, each.why if each.difference is None else _format_difference(each.difference)
        )
    yield from list_notes(first.rules)


def _format_row(policy: str, summary: Summary, difference: str) -> str:
    name, share = as_line(policy, _NAME), summary.headline
    if share is None:
        return f"  {name:<{_NAME}} none: {as_line(summary.why)}"
    return f"  {name:<{_NAME}} {share.mean:6.3f}  {share.low:.3f} to {share.high:.3f}   {difference}".rstrip()


def _format_difference(found: Difference) -> str:
    interval = "" if found.low is None else f"  {found.low:+.3f} to {found.high:+.3f}"
    return f"{found.mean:+.3f}{interval}, {found.up} up, {found.down} down"
