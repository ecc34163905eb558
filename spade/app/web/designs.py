"""The rejected attempts of a run: their numbers by stage and reason, and their table."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from replay.ledger.records import Reject
from replay.store import Store
from spade.app.report.gallery import find_kind
from spade.app.web.tables import Column, Query, TablePage, make_field, make_table


class KeyedReject(NamedTuple):
    """A rejected attempt with its key in the store."""

    key: str
    """The key."""

    reject: Reject
    """The attempt."""

    kind: str
    """The first clause of the reason, without its numbers and ids."""


def read_rejects(store: Store) -> list[KeyedReject]:
    """Read the rejected attempts, the newest job first."""
    found = [KeyedReject(key, each, find_kind(each.reason)) for key, each in store.decoded("rejects", Reject)]
    return found[::-1]


def count_reasons(rejects: Iterable[KeyedReject]) -> tuple[dict[tuple[str, str], int], dict[str, Reject]]:
    """Return the number of attempts by stage and reason, and the newest attempt of each stage."""
    found = list(rejects)
    counts = Counter((each.reject.stage, each.kind) for each in found)
    return dict(counts), {each.reject.stage: each.reject for each in reversed(found)}


def list_rejects(rejects: list[KeyedReject], query: Query) -> TablePage:
    """Return a page of the rejected attempts that pass the query's filters."""
    stage, skill, text = (query.get(name, "") for name in ("stage", "skill", "reason"))
    passed = (
        each
        for each in rejects
        if stage in ("", each.reject.stage)
        and skill in ("", each.reject.skill)
        and text.lower() in each.reject.reason.lower()
    )
    fields = (
        make_field(query, "stage", "stage", tuple(sorted({each.reject.stage for each in rejects}))),
        make_field(query, "skill", "skill", tuple(sorted({each.reject.skill for each in rejects}))),
        make_field(query, "reason", "words of the reason"),
    )
    return make_table(passed, _COLUMNS, fields, query, "reject", lambda each: each.key)


_COLUMNS = (
    Column("id", "attempt", lambda each: each.key),
    Column("at", "stage", lambda each: each.reject.stage),
    Column("of", "skill", lambda each: each.reject.skill),
    Column("why", "reason", lambda each: " ".join(each.reject.reason.split())),
)
