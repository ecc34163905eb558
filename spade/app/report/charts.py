"""The charts of a page: each figure of each arm, with its text alternative and its numbers. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from spade.app.report.arms import Arm
from spade.app.report.drawing import DrawnChart, Line, draw, format_figure, format_interval, name_letter
from spade.app.report.figures import Chapter, Figure, RunFigures, make_chapters
from spade.app.report.series import Curve, Point, pool, thin

MOST_FAINT = 12
"""With at most this many runs, each run is also drawn as a faint line behind its arm's mean."""
FAINT_POINTS = 60
_DESCRIBED_ARMS = 4  # most arms that a text alternative describes
_CELLS = 5


class CurvePoints(NamedTuple):
    """Some points of an arm's curve."""

    letter: str
    """The letter of the curve."""

    name: str
    """The name of the arm."""

    cells: tuple[tuple[str, str], ...]
    """Pairs of step and value. The value includes its interval."""


class Chart(NamedTuple):
    """A drawn figure."""

    title: str
    """The figure's title."""

    says: str
    """The figure's explanation."""

    alternative: str
    """The text alternative: describes the curves in words."""

    drawn: DrawnChart
    """Lines and ticks of the chart in coordinates of its picture."""

    numbers: tuple[CurvePoints, ...]
    """Some points of each arm's curve, as texts."""


class ChapterCharts(NamedTuple):
    """A chapter of charts."""

    title: str
    """The chapter's title."""

    charts: tuple[Chart, ...]
    """Charts with at least one curve."""

    missing: tuple[str, ...]
    """Titles of figures that no run has."""


def draw_chapters(arms: Sequence[Arm], runs: Sequence[RunFigures]) -> list[ChapterCharts]:
    """Draw all chapters."""
    return [_make_chapter(chapter, arms, runs) for chapter in make_chapters(runs)]


def make_arm_curve(figure: Figure, arm: Arm, runs: Sequence[RunFigures]) -> Curve:
    """Return the curve of an arm: the curve of its only run, or the mean over its runs with its interval."""
    return _compute_mean(figure, _make_curves(figure, arm, runs))


def _make_curves(figure: Figure, arm: Arm, runs: Sequence[RunFigures]) -> list[Curve]:
    return [figure.curve(runs[member]) for member in arm.members]


def _compute_mean(figure: Figure, curves: Sequence[Curve]) -> Curve:
    return thin(pool(curves, figure.low, figure.high))


def _make_chapter(chapter: Chapter, arms: Sequence[Arm], runs: Sequence[RunFigures]) -> ChapterCharts:
    made = [(figure.title, _make_chart(figure, arms, runs)) for figure in chapter.figures]
    charts = tuple(chart for _, chart in made if chart is not None)
    return ChapterCharts(chapter.title, charts, tuple(title for title, chart in made if chart is None))


def _make_chart(figure: Figure, arms: Sequence[Arm], runs: Sequence[RunFigures]) -> Chart | None:
    lines = [_make_line(figure, arm, runs) for arm in arms]
    if not any(line.curve for line in lines):
        return None
    shown = [(place, line) for place, line in enumerate(lines) if line.curve]
    more = f"; and {len(shown) - _DESCRIBED_ARMS} more" if len(shown) > _DESCRIBED_ARMS else ""
    described = (_describe_line(*each, figure.share, len(arms) > 1) for each in shown[:_DESCRIBED_ARMS])
    return Chart(
        figure.title,
        figure.says,
        f"{figure.title} by learner step: {'; '.join(described)}{more}.",
        draw(lines, figure.share, figure.zero),
        tuple(_list_numbers(place, line, figure.share) for place, line in shown),
    )


def _make_line(figure: Figure, arm: Arm, runs: Sequence[RunFigures]) -> Line:
    curves = [curve for curve in _make_curves(figure, arm, runs) if curve]
    mean = _compute_mean(figure, curves)
    # With two runs, the interval is 12.7 standard errors on each side. Its band would hide all other curves.
    if len(curves) == 2:
        mean = tuple(Point(point.step, point.value) for point in mean)
    single = len(arm.members) > 1 and len(runs) <= MOST_FAINT
    return Line(arm.name, mean, tuple(thin(curve, FAINT_POINTS) for curve in curves) if single else ())


def _describe_line(place: int, line: Line, share: bool, several: bool) -> str:
    first, last = line.curve[0], line.curve[-1]
    who = f"{name_letter(place)} ({line.name}) " if several else ""
    now = f"{format_interval(last, share)} at step {last.step:,.0f}"
    return (
        f"{who}{now}"
        if first == last
        else f"{who}from {format_figure(first.value, share)} at step {first.step:,.0f} to {now}"
    )


def _list_numbers(place: int, line: Line, share: bool) -> CurvePoints:
    last = len(line.curve) - 1
    places = sorted({round(last * part / (_CELLS - 1)) for part in range(_CELLS)})
    cells = tuple((f"{line.curve[at].step:,.0f}", format_interval(line.curve[at], share)) for at in places)
    return CurvePoints(name_letter(place), line.name, cells)
