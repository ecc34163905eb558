"""The page: collected runs, put into the template. All text is escaped in one place.

The page needs no network and runs no script. Its Content-Security-Policy allows one style sheet, by its digest, and
nothing else. So even a text that passed the escaping unchanged could not run or load anything.
"""

import base64
import hashlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jinja2
from markupsafe import Markup

from spade.app.report import drawing
from spade.app.report.arms import Arm, compare_settings
from spade.app.report.charts import draw_chapters
from spade.app.report.collect import SavedRun
from spade.app.report.curriculum import PARTS, make_tables, pair_designs
from spade.app.report.entries import make_entries
from spade.app.report.figures import RunFigures, make_glance
from spade.app.report.tables import compare_arms, describe_health, list_suites, make_arm_rows, make_rejections
from spade.text import make_visible

TEMPLATES = Path(__file__).with_name("templates")
LONGEST_TEXT = 20_000
"""Most characters of one text on the page."""
MOST_ENVIRONMENTS = 24
"""Environments in the gallery of a page, over all runs. Each run gets at least LEAST_OF_A_RUN."""
LEAST_OF_A_RUN = 2
MOST_ARMS_DESIGNS = 6
"""Most arms with a curriculum and rejected programs on the page."""


def make_showable(value: Any) -> Any:
    """Make control characters of a text visible and bound its length. Every value of the template passes through here.

    The template then escapes the text. Markup is returned unchanged. It comes only from macros, the style sheet and
    `highlight_program`.
    """
    if isinstance(value, str) and not isinstance(value, Markup):
        text = make_visible(value[:LONGEST_TEXT])[:LONGEST_TEXT]
        return text if len(value) <= LONGEST_TEXT else f"{text}… ({len(value)} characters)"
    return value


def make_templates(*folders: Path) -> jinja2.Environment:
    """Return the templates of `folders` and of the report. They escape every text."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        finalize=make_showable,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def compute_share(runs: int) -> int:
    """Return how many environments of each run the gallery shows."""
    return max(LEAST_OF_A_RUN, MOST_ENVIRONMENTS // runs)


class ShownTable(Protocol):
    """A table of texts. The first column names its rows."""

    @property
    def title(self) -> str: ...

    @property
    def says(self) -> str: ...

    @property
    def head(self) -> Sequence[str]: ...

    @property
    def rows(self) -> Sequence[Sequence[str]]: ...


class FirstSection(NamedTuple):
    """The first section of a page about runs without stores. It replaces the sections that need a store."""

    title: str
    """The heading."""

    state: str
    """The state of the runs in one line."""

    tables: Sequence[ShownTable]
    """The tables."""


def render(runs: Sequence[SavedRun], arms: Sequence[Arm], made_at: float, lead: FirstSection | None = None) -> str:
    """Render the whole page as HTML."""
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        make_templates()
        .get_template("page.html")
        .render(style=Markup(style), style_digest=digest, **_make_context(runs, arms, made_at), lead=lead)
    )


def _make_context(runs: Sequence[SavedRun], arms: Sequence[Arm], made_at: float) -> dict[str, Any]:
    found = [pair_designs(run.designs.environments, run.designs.steps) for run in runs]
    return {
        **make_overview(runs, arms),
        "made": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(made_at)),
        "curricula": [
            (arm.name, make_tables([design for member in arm.members for design in found[member]]))
            for arm in arms[:MOST_ARMS_DESIGNS]
        ],
        "entries": [entry for place, run in enumerate(runs) for entry in make_entries(place, run)],
        "rejections": [
            make_rejections(arm.name, [runs[member] for member in arm.members]) for arm in arms[:MOST_ARMS_DESIGNS]
        ],
        "arms_left_out": [arm.name for arm in arms[MOST_ARMS_DESIGNS:]],
        "suites": [row for run in runs for row in list_suites(run)],
        "parts": PARTS,
    }


def make_overview(runs: Sequence[SavedRun], arms: Sequence[Arm]) -> dict[str, Any]:
    """Return the values of the fragments that show the runs as a whole: notes, newest figures, charts and health."""
    designs = [pair_designs(run.designs.environments, run.designs.steps) for run in runs]
    figures = [RunFigures(run.rows, own) for run, own in zip(runs, designs, strict=True)]
    return {
        "title": runs[0].name if len(runs) == 1 else f"{len(runs)} runs",
        "arms": [(drawing.name_letter(place), arm.name, len(arm.members)) for place, arm in enumerate(arms)],
        "runs": runs,
        "notes": _collect_notes(runs, arms),
        "glance": make_arm_rows(make_glance(figures), arms, figures),
        "glance_titles": [figure.title for figure in make_glance(figures)],
        "apart": compare_arms(arms, runs),
        "chapters": draw_chapters(arms, figures),
        "healths": [describe_health(run) for run in runs],
        "drawing": drawing,
    }


def _collect_notes(runs: Sequence[SavedRun], arms: Sequence[Arm]) -> list[tuple[str, str]]:
    """Return notes on missing or notable things, by run. A note of all runs appears once."""
    notes: dict[str, list[str]] = {}
    for run in runs:
        for note in run.notes:
            notes.setdefault(note, []).append(run.name)
    told = [(_name_runs(names, len(runs)), note) for note, names in notes.items()]
    for arm in arms:
        configs = {runs[member].name: config for member in arm.members if (config := runs[member].config) is not None}
        if settings := compare_settings(configs):
            told.append((arm.name, f"its runs differ in {', '.join(settings)}; the mean is over all of them"))
    return told


def _name_runs(names: Sequence[str], all_runs: int) -> str:
    if len(names) == all_runs and all_runs > 1:
        return f"all {all_runs} runs"
    return f"{', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}"
