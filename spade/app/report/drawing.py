"""The geometry of a line chart: scales, ticks, lines and bands in the units of its picture. Pure."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from spade.app.report.series import Curve, Point

WIDTH, HEIGHT = 360, 200
LEFT, RIGHT, TOP, BOTTOM = 46, 338, 10, 172
"""Edges of the plot inside the picture."""
HOVERS = 24
"""Most points of a curve that show their value under the mouse."""
_LABEL = 11  # height of a letter
_LARGEST_PLAIN = 1e9
_LARGE, _MOST_DECIMALS = 1e5, 4  # labels get an exponent from this value on, or if they need more decimals
_NEAR = 12  # letters closer than this are moved apart
_SMALLEST = 1e-300  # smaller values are drawn as 0
_LEAST_SHARES, _LEAST_PART = 0.1, 0.02  # minimum span of an axis: of shares; of other values, relative to the largest


class Line(NamedTuple):
    """A curve to draw."""

    name: str
    """The text of its legend."""

    curve: Curve
    """Points of the curve."""

    faint: tuple[Curve, ...] = ()
    """Curves of single runs, drawn faintly behind the curve."""


class Tick(NamedTuple):
    """A tick of an axis."""

    at: float
    """Coordinate of the tick on its axis, in the picture."""

    label: str
    """Text beside the tick."""


class Hover(NamedTuple):
    """A place that shows `text` under the mouse."""

    x: float
    """x coordinate of the place."""

    y: float
    """y coordinate of the place."""

    text: str
    """The text that appears."""


class DrawnLine(NamedTuple):
    """A curve in SVG coordinates."""

    place: int
    """Index of the line among all lines."""

    name: str
    """The text of its legend."""

    letter: str
    """The letter that marks the end of the curve."""

    points: str
    """The line's points. "" for a single point."""

    band: str
    """The outline of the band of intervals, or ""."""

    faint: tuple[str, ...]
    """Points of the faint curves."""

    dot: tuple[float, float] | None
    """Coordinates of a single point, which is drawn as a dot."""

    bar: tuple[float, float] | None
    """y coordinates of the interval of a single point."""

    end: float
    """x coordinate of the end of the curve."""

    letter_y: float
    """y coordinate of the letter."""

    hovers: tuple[Hover, ...]
    """Places that show a value when the mouse is over them."""


class DrawnChart(NamedTuple):
    """A chart as numbers and labels."""

    xs: tuple[Tick, ...]
    """Ticks of the x axis."""

    ys: tuple[Tick, ...]
    """Ticks of the y axis."""

    zero: float | None
    """y coordinate of zero, or None if zero is not inside the plot."""

    lines: tuple[DrawnLine, ...]
    """The drawn curves."""


class Scale(NamedTuple):
    """A linear map of [low, high] to [begin, end]."""

    low: float
    """The value at `begin`."""

    high: float
    """The value at `end`."""

    begin: float
    """The place of `low`."""

    end: float
    """The place of `high`."""

    def __call__(self, value: float) -> float:
        """Return the place of a value, to a tenth. A value outside is put at the nearer end."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.begin + min(max(share, 0.0), 1.0) * (self.end - self.begin), 1)


def name_letter(place: int) -> str:
    """Return the letter that marks a curve: A, B, … Z, A2, …"""
    turn, number = divmod(place, 26)
    return chr(ord("A") + number) + (str(turn + 1) if turn else "")


def format_figure(value: float, share: bool) -> str:
    """Format a value for people: a share in percent, another number with three digits."""
    if share:
        told = f"{value:.1%}" if 0 < abs(value) < 0.1 else f"{value:.0%}"
    elif value and abs(value) < 1e-3:
        told = f"{value:.1e}"
    else:
        told = f"{value:,.0f}" if 1000 <= abs(value) < _LARGEST_PLAIN else f"{value:.3g}"
    return told.replace("-", "−").replace("%", " %")


def format_interval(point: Point, share: bool) -> str:
    """Format a value with its interval."""
    told = format_figure(point.value, share)
    if point.low is None or point.high is None:
        return told
    return f"{told} ({format_figure(point.low, share)} to {format_figure(point.high, share)})"


def choose_ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers in [low, high]: at most `most` + 1, and at least one if the range is not empty."""
    raw = (high - low) / most
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def draw(lines: Sequence[Line], share: bool = False, zero: bool = False) -> DrawnChart:
    """Draw a chart of `lines`. At least one line must have a point. `share` shows percent, `zero` includes zero."""
    curves = [curve for line in lines for curve in (line.curve, *line.faint) if curve]
    steps = [point.step for curve in curves for point in curve]
    x = Scale(min(steps), max(max(steps), min(steps) + 1), LEFT, RIGHT)
    low, high = _find_range(curves, share, zero)
    y = Scale(low, high, BOTTOM, TOP)
    drawn = [_draw_line(place, line, x, y, share) for place, line in enumerate(lines) if line.curve]
    spread = _move_apart([(line.end, line.letter_y) for line in drawn])
    return DrawnChart(
        tuple(Tick(x(value), f"{value:,.0f}") for value in choose_ticks(x.low, x.high, 4) if value.is_integer()),
        tuple(Tick(y(value), label) for value, label in _format_labels(choose_ticks(low, high, 5), share)),
        y(0.0) if low < 0 < high else None,
        tuple(line._replace(letter_y=at) for line, at in zip(drawn, spread, strict=True)),
    )


def _find_range(curves: Sequence[Curve], share: bool, zero: bool) -> tuple[float, float]:
    ends = [end for curve in curves for point in curve for end in (point.value, point.low, point.high)]
    known = [min(max(end, 0.0), 1.0) if share else end for end in ends if end is not None] + ([0.0] if zero else [])
    low, high = min(known), max(known)
    largest = max(abs(low), abs(high))
    least = _LEAST_SHARES if share else _LEAST_PART * largest if largest > _SMALLEST else 1.0
    lack = least - (high - low)
    if lack > 0:
        low, high = low - lack / 2, high + lack / 2
    room = 0.04 * (high - low)
    low = low if zero and low == 0 else low - room
    return (max(low, 0.0), min(high + room, 1.0)) if share else (low, high + room)


def _format_labels(values: Sequence[float], share: bool) -> list[tuple[float, str]]:
    """Label the values of an axis with as few decimals as distinguish them."""
    scaled = [100 * value if share else value for value in values]
    step = scaled[1] - scaled[0] if len(scaled) > 1 else abs(scaled[0]) if scaled else 0.0
    smallest = math.floor(math.log10(step) + 1e-9) if step else 0
    most = max(map(abs, scaled), default=0.0)
    digits = max(0, math.floor(math.log10(most)) - smallest) if most else 0
    shape = f".{digits}e" if most >= _LARGE or -smallest > _MOST_DECIMALS else f",.{max(0, -smallest)}f"
    labels = [format(value + 0.0, shape).replace("-", "−") for value in scaled]
    return [(value, f"{label} %" if share else label) for value, label in zip(values, labels, strict=True)]


def _draw_line(place: int, line: Line, x: Scale, y: Scale, share: bool) -> DrawnLine:
    curve, last = line.curve, line.curve[-1]
    alone = len(curve) == 1
    every = max(1, math.ceil(len(curve) / HOVERS))
    near = [point for number, point in enumerate(reversed(curve)) if number % every == 0]
    return DrawnLine(
        place=place,
        name=line.name,
        letter=name_letter(place),
        points="" if alone else _draw_path(curve, x, y),
        band="" if alone else _draw_band(curve, x, y),
        faint=tuple(_draw_path(each, x, y) for each in line.faint if len(each) > 1),
        dot=(x(last.step), y(last.value)) if alone else None,
        bar=(y(last.low), y(last.high)) if alone and last.low is not None and last.high is not None else None,
        end=x(last.step),
        letter_y=y(last.value),
        hovers=tuple(
            Hover(
                x(point.step), y(point.value), f"{line.name}, step {point.step:,.0f}: {format_interval(point, share)}"
            )
            for point in near
        ),
    )


def _draw_path(curve: Curve, x: Scale, y: Scale) -> str:
    return " ".join(f"{x(point.step):g},{y(point.value):g}" for point in curve)


def _draw_band(curve: Curve, x: Scale, y: Scale) -> str:
    """Return the outline of the intervals, or "" if fewer than two points have an interval."""
    known = [(x(p.step), y(p.low), y(p.high)) for p in curve if p.low is not None and p.high is not None]
    if len(known) < 2:
        return ""
    above = [f"{at:g},{high:g}" for at, _, high in known]
    below = [f"{at:g},{low:g}" for at, low, _ in reversed(known)]
    return " ".join((*above, *below))


def _move_apart(ends: Sequence[tuple[float, float]]) -> list[float]:
    """Return the height of the letter at each curve's end (x, y). Moves letters apart that would cover each other."""
    placed = [y for _, y in ends]
    order = sorted(range(len(ends)), key=lambda place: ends[place][0])
    while order:
        near = [place for place in order if ends[place][0] - ends[order[0]][0] < _NEAR]
        for place, height in zip(near, _spread([placed[place] for place in near]), strict=True):
            placed[place] = height
        order = order[len(near) :]
    return placed


def _spread(heights: Sequence[float]) -> list[float]:
    """Return heights inside the plot with room between them, in the same order from the top."""
    order = sorted(range(len(heights)), key=lambda place: heights[place])
    room = min(_LABEL, (BOTTOM - TOP) / max(len(heights) - 1, 1))
    placed, least = list(heights), -math.inf
    for place in order:
        placed[place] = least = max(heights[place], least + room)
    most = float(BOTTOM)
    for place in reversed(order):
        placed[place] = most = min(placed[place], most)
        most -= room
    return [round(height, 1) for height in placed]
