"""The gallery of a page: each environment with its program, two plays side by side, parents and children. Pure."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from markupsafe import Markup

from replay.inspect.designs import ShownEnvironment
from replay.ledger.records import Environment, PlayRecord
from spade.app.report.collect import SavedRun
from spade.app.report.drawing import format_figure
from spade.app.report.gallery import choose_pair, find_children
from spade.app.report.highlighting import highlight_program
from spade.app.report.transcript import Part, cut_text
from spade.text import as_line

LONGEST_SOURCE = 12_000
LONGEST_TEXT = 2_000
"""Most characters of a hint and of a first observation. LONGEST_SOURCE bounds a program."""
LONGEST_FACT = 200
MOST_RELATED = 8


class RelatedEnvironment(NamedTuple):
    """A parent or a child of an environment."""

    id: str
    """Id of the parent or child."""

    link: str
    """The link to its entry on the page, or "" if it has no entry."""


class PlayColumn(NamedTuple):
    """One of two plays that stand side by side."""

    arm: str
    """The arm of the play, in words."""

    outcome: str
    """The outcome of the play, in words."""

    parts: Sequence[Part] | None
    """The transcript of the play, or None if its tokens were not kept."""


class Returns(NamedTuple):
    """The finished plays of an arm, grouped by return."""

    arm: str
    """The arm, in words."""

    mean: str
    """Mean return of these plays, as text."""

    levels: tuple[tuple[str, int, int], ...]
    """For each return: its value, its number of plays, and this number in percent of the largest in any arm."""


class GalleryEntry(NamedTuple):
    """An environment as the page shows it."""

    anchor: str
    """The anchor of this entry on the page."""

    run: str
    """The name of the environment's run."""

    id: str
    """The environment's id."""

    name: str
    """The environment's name."""

    why: str
    """The reasons why the page shows it."""

    figures: tuple[tuple[str, str], ...]
    """Names and values for the line that is always visible."""

    facts: tuple[tuple[str, str], ...]
    """Names and values of further facts."""

    hint: str
    """Its hint, possibly cut."""

    observation: str
    """Its first observation, possibly cut."""

    source: Markup
    """Its program, possibly cut and with its syntax marked."""

    sides: tuple[PlayColumn, ...]
    """The two plays to show side by side."""

    returns: tuple[Returns, ...]
    """Returns of the finished plays, by arm."""

    parents: tuple[RelatedEnvironment, ...]
    """The environments that this one varies."""

    more_parents: int
    """Number of parents that are not listed."""

    children: tuple[RelatedEnvironment, ...]
    """The environments that vary this one."""

    more_children: int
    """Number of children that are not listed."""


def make_entries(place: int, run: SavedRun) -> list[GalleryEntry]:
    """Return the gallery entries of a run. `place` is the index of the run on the page."""
    children = find_children(run.designs.environments)
    anchors = {shown.environment.id: f"env-{place}-{number}" for number, shown in enumerate(run.designs.shown)}

    def link(id: str) -> str:
        return f"#{anchors[id]}" if id in anchors else ""

    return [
        make_entry(run, shown, children.get(id, []), link)._replace(anchor=anchors[id])
        for shown in run.designs.shown
        for id in [shown.environment.id]
    ]


def make_entry(run: SavedRun, shown: ShownEnvironment, kids: Sequence[str], link: Callable[[str], str]) -> GalleryEntry:
    """Return an environment with its program and plays. `link` gives the addresses of its parents and children."""
    environment, source = shown.environment, shown.source
    parents = environment.parents
    return GalleryEntry(
        anchor="",
        run=run.name,
        id=environment.id,
        name=as_line(environment.name, LONGEST_FACT),
        why=", ".join(run.why.get(environment.id, [])),
        figures=_list_figures(environment),
        facts=_list_facts(environment, run.designs.steps),
        hint=cut_text(source.hint, LONGEST_TEXT),
        observation=cut_text(source.first_observation, LONGEST_TEXT),
        source=highlight_program(cut_text(source.source, LONGEST_SOURCE)),
        sides=tuple(_make_side(play, run.transcripts.get(play.id)) for play in choose_pair(shown.plays)),
        returns=_make_returns(shown.plays),
        parents=tuple(RelatedEnvironment(as_line(id, LONGEST_FACT), link(id)) for id in parents[:MOST_RELATED]),
        more_parents=len(parents[MOST_RELATED:]),
        children=tuple(RelatedEnvironment(id, link(id)) for id in kids[:MOST_RELATED]),
        more_children=len(kids[MOST_RELATED:]),
    )


def _list_figures(environment: Environment) -> tuple[tuple[str, str], ...]:
    """Return the figures that the environment's window measured, for the line that is always visible."""
    score = environment.score
    if score is None:
        return (("state", environment.state),)
    known = (
        ("unhinted", score.win_rate, True), ("hinted", score.win_rate_hinted, True),
        ("regret", score.regret, False), ("reward", score.reward, False),
    )  # fmt: skip
    return tuple((name, format_figure(value, share)) for name, value, share in known if value is not None)


def _list_facts(environment: Environment, steps: dict[int, int]) -> tuple[tuple[str, str], ...]:
    measures, audit = environment.measures, environment.audit
    finding = "" if audit is None else f"{audit.state}{f': {audit.finding}' if audit.finding else ''}"
    known = (
        ("skill", environment.skill), ("state", environment.state), ("document", environment.document),
        ("designed at step", steps.get(environment.designed_version)), ("setting", environment.setting),
        ("variant", environment.variant), ("level", environment.level if environment.program else None),
        ("lines", measures.lines), ("hidden variables", measures.hidden_variables), ("tools", measures.tools),
        ("similarity", None if measures.similarity is None else format_figure(measures.similarity, False)),
        ("reward levels", len(environment.levels) or None), ("audit", finding),
        ("repaired", ", ".join(environment.repairs)),
    )  # fmt: skip
    return tuple((name, as_line(str(value), LONGEST_FACT)) for name, value in known if value not in (None, ""))


def _make_side(play: PlayRecord, parts: Sequence[Part] | None) -> PlayColumn:
    ended = "ended" if play.terminated else "cut off"
    outcome = f"return {play.episode_return:g}, {ended} in {play.turns} turns, instance {play.index}"
    return PlayColumn("with the hint" if play.hinted else "without the hint", outcome, parts)


def _make_returns(plays: Sequence[PlayRecord]) -> tuple[Returns, ...]:
    arms = {arm: [p.episode_return for p in plays if p.hinted == hinted] for arm, hinted in _ARMS}
    counts = {arm: {value: values.count(value) for value in set(values)} for arm, values in arms.items() if values}
    most = max((count for levels in counts.values() for count in levels.values()), default=1)
    return tuple(
        Returns(
            arm,
            f"{sum(arms[arm]) / len(arms[arm]):.2f}",
            tuple((f"{value:g}", levels[value], 100 * levels[value] // most) for value in sorted(levels)[:MOST_LEVELS]),
        )
        for arm, levels in counts.items()
    )


MOST_LEVELS = 12
_ARMS = (("without the hint", False), ("with the hint", True))
