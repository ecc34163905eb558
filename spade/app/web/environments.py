"""The table of environments: filters, columns and order. Pure."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from replay.inspect.pool import Filters
from replay.ledger.records import Environment
from spade.app.report.drawing import format_figure
from spade.app.web.tables import Column, Field, Query, TablePage, make_field, make_table, read_bounds, read_count

STATES = ("active", "closed", "quarantined")


class ListedEnvironment(NamedTuple):
    """An environment with the figures that its record lacks."""

    environment: Environment
    """The environment."""

    step: int | None
    """The learner step of the policy that designed it. None if it is unknown."""

    children: int
    """Number of environments that vary it."""


def list_environments(
    environments: Mapping[str, Environment], steps: Mapping[int, int], children: Mapping[str, list[str]], query: Query
) -> TablePage:
    """Return a page of the environments that pass the query's filters, the newest first."""
    rows = (
        ListedEnvironment(each, steps.get(each.designed_version), len(children.get(each.id, ())))
        for each in reversed(tuple(environments.values()))
    )
    skills = tuple(sorted({each.skill for each in environments.values()}))
    fields = _make_fields(query, skills)
    return make_table(_filter(rows, query), _COLUMNS, fields, query, "environment", lambda row: row.environment.id)


def _filter(rows: Iterable[ListedEnvironment], query: Query) -> Iterable[ListedEnvironment]:
    skill, state, parent, text = (query.get(name, "") for name in ("skill", "state", "parent", "name"))
    figures = Filters((skill,) if skill else (), read_bounds(query, "rate"), read_bounds(query, "regret"))
    since = read_count(query, "since")
    for row in rows:
        each = row.environment
        if (
            figures.passed_by(each)
            and state in ("", each.state)
            and (not parent or parent in each.parents)
            and (not since or (row.step is not None and row.step >= since))
            and text.lower() in f"{each.id} {each.name}".lower()
        ):
            yield row


def _make_fields(query: Query, skills: tuple[str, ...]) -> tuple[Field, ...]:
    return (
        make_field(query, "name", "name or id"),
        make_field(query, "skill", "skill", skills),
        make_field(query, "state", "state", STATES),
        make_field(query, "rate_from", "win rate from", number=True),
        make_field(query, "rate_to", "win rate to", number=True),
        make_field(query, "regret_from", "regret from", number=True),
        make_field(query, "regret_to", "regret to", number=True),
        make_field(query, "since", "since step", number=True),
        make_field(query, "parent", "parent"),
    )


def _make_figure(name: str, title: str, share: bool) -> Column:
    def value(row: ListedEnvironment) -> float | None:
        score = row.environment.score
        found: float | None = None if score is None else getattr(score, name)
        return found

    return Column(name, title, value, lambda row: format_figure(value(row) or 0.0, share))


_COLUMNS = (
    Column("id", "id", lambda row: row.environment.id),
    Column("title", "name", lambda row: row.environment.name),
    Column("of", "skill", lambda row: row.environment.skill),
    Column("is", "state", lambda row: row.environment.state),
    _make_figure("win_rate", "unhinted", True),
    _make_figure("win_rate_hinted", "hinted", True),
    _make_figure("regret", "regret", False),
    _make_figure("reward", "reward", False),
    Column("step", "step", lambda row: row.step),
    Column("parents", "parents", lambda row: len(row.environment.parents)),
    Column("children", "children", lambda row: row.children),
)
