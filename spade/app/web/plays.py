"""The table of plays: filters, columns and order."""

from collections.abc import Iterable

from replay.ledger.keys import make_environment_prefix
from replay.ledger.records import PlayRecord
from replay.store import Store
from spade.app.web.tables import Column, Field, Query, TablePage, make_field, make_table, read_bounds, read_count
from spade.config import Config
from spade.returns import is_won

MOST_WALKED = 20_000
"""A query for one environment searches all of its plays. Any other query searches at most this many plays, beginning
with the newest environment."""
LONGEST_ID = 100
OUTCOMES = ("won", "not won", "void", "unfinished")
ARMS = ("unhinted", "hinted")


def list_plays(store: Store, config: Config, query: Query) -> tuple[TablePage, str]:
    """Return a page of the plays that pass the query's filters, and a remark if some plays were not searched."""
    if environment := query.get("environment", ""):
        found = list(
            reversed(store.scan("plays", PlayRecord, prefix=make_environment_prefix(environment[:LONGEST_ID])))
        )
        left_out = False
    else:
        newest = list(store.last("plays", PlayRecord, MOST_WALKED + 1))
        found, left_out = newest[:MOST_WALKED], len(newest) > MOST_WALKED
    remark = f"Only the newest {MOST_WALKED:,} plays are searched. A filter on one environment finds all its plays."
    least, fields = config.play.win_return, _make_fields(query)
    columns = (*_COLUMNS[:2], Column("was", "outcome", lambda play: find_outcome(play, least)), *_COLUMNS[2:])
    page = make_table(_filter(found, query, least), columns, fields, query, "play", lambda play: play.id)
    return page, remark if left_out else ""


def find_outcome(play: PlayRecord, least: float) -> str:
    """Return the outcome of a play, one of OUTCOMES. `least` is `play.win_return`."""
    if play.state == "finished":
        return "won" if is_won(play.episode_return, least) else "not won"
    return "void" if play.state == "void" else "unfinished"


def name_arm(play: PlayRecord) -> str:
    """Return the arm of a play."""
    return ARMS[play.hinted]


def _filter(plays: Iterable[PlayRecord], query: Query, least: float) -> Iterable[PlayRecord]:
    arm, outcome = query.get("arm", ""), query.get("outcome", "")
    returns, version = read_bounds(query, "return"), read_count(query, "version")
    for play in plays:
        if (
            play.lease  # a play without a lease has not begun
            and arm in ("", name_arm(play))
            and outcome in ("", find_outcome(play, least))
            and (returns is None or (play.state == "finished" and returns.hold(play.episode_return)))
            and version in (0, play.version)
        ):
            yield play


def _make_fields(query: Query) -> tuple[Field, ...]:
    return (
        make_field(query, "environment", "environment"),
        make_field(query, "arm", "arm", ARMS),
        make_field(query, "outcome", "outcome", OUTCOMES),
        make_field(query, "return_from", "return from", number=True),
        make_field(query, "return_to", "return to", number=True),
        make_field(query, "version", "policy version", number=True),
    )


_COLUMNS = (
    Column("id", "id", lambda play: play.id),
    Column("in", "arm", name_arm),
    Column(
        "return", "return", lambda play: play.episode_return if play.state == "finished" else None,
        lambda play: f"{play.episode_return:.2f}",
    ),
    Column("turns", "turns", lambda play: play.turns),
    Column("tokens", "sampled tokens", lambda play: play.sampled),
    Column("seconds", "seconds", lambda play: play.seconds, lambda play: f"{play.seconds:.1f}"),
    Column("of", "version", lambda play: play.version),
    Column("why", "remark", lambda play: play.fault),
)  # fmt: skip
