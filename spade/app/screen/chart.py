"""Draw a line with its error band, or a bar, in text characters."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from rich.text import Text

_LEVELS = "▁━▔"  # the line at the bottom, in the middle and at the top of a cell
_AXIS = 6
_LEAST_SPAN = 0.02  # An axis spans at least this much, because smaller differences should not look large.


def draw_chart(
    points: Sequence[tuple[float, float]], width: int, height: int, style: str, *, with_zero: bool = True
) -> Text:
    """Draw all points (value, standard error) as a line over a band of one error on each side, the oldest at the left.

    `width` and `height` count cells, including the axis. The range covers the drawn points and, if `with_zero`, zero.
    """
    if height < 1:
        return Text()
    columns = max(width - _AXIS, 1)
    shown = _fit(points, columns)
    if not shown:
        return Text("\n" * (height // 2) + "nothing measured yet".center(width), style="dim")
    low, high = _find_span(shown, with_zero)
    grid = [[(" ", "")] * columns for _ in range(height)]
    for column, (value, error) in enumerate(shown):
        _draw_column(grid, column, (value, error), (low, high), style)
    text = Text(no_wrap=True)
    for row, cells in enumerate(grid):
        label = {0: f"{high:5.2f} ", height - 1: f"{low:5.2f} "}.get(row, " " * _AXIS)
        text.append(label, "dim")
        for cell, cell_style in cells:
            text.append(cell, cell_style)
        if row < height - 1:
            text.append("\n")
    return text


def _fit(points: Sequence[tuple[float, float]], columns: int) -> list[tuple[float, float]]:
    """Reduce to at most `columns` points by averaging neighbours.

    The error of a column is the mean of the errors, because neighbouring points are not independent.
    """
    if len(points) <= columns:
        return list(points)
    edges = [index * len(points) // columns for index in range(columns + 1)]
    parts = [points[start:end] for start, end in pairwise(edges)]
    return [(fmean(value for value, _ in part), fmean(error for _, error in part)) for part in parts]


def _find_span(shown: Sequence[tuple[float, float]], with_zero: bool) -> tuple[float, float]:
    """Return the lowest and highest value of an axis that shows these points with their errors."""
    low, high = min(value - error for value, error in shown), max(value + error for value, error in shown)
    if with_zero:
        return min(0.0, low), max(0.1, high)
    missing = max(_LEAST_SPAN - (high - low), 0.0) / 2
    return low - missing, high + missing


def _draw_column(
    grid: list[list[tuple[str, str]]], column: int, point: tuple[float, float], span: tuple[float, float], style: str
) -> None:
    value, error = point
    height = len(grid)

    def position(y: float) -> float:
        """Return the height of `y` above the bottom, in cells, clipped to the grid."""
        share = (y - span[0]) / (span[1] - span[0])
        return min(max(share * height, 0.0), height - 1e-6)

    for cell in range(int(position(value - error)), int(position(value + error)) + 1):
        grid[height - 1 - cell][column] = ("░", "dim " + style)
    at = position(value)
    grid[height - 1 - int(at)][column] = (_LEVELS[int(at % 1 * len(_LEVELS))], "bold " + style)


def draw_bar(share: float | None, width: int, style: str) -> Text:
    """Draw a share in [0, 1] as a bar of `width` cells, in eighths of a cell."""
    if share is None:
        return Text("·" * width, "dim")
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, rest = divmod(eighths, 8)
    filled = "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")
    return Text(filled, style) + Text("·" * (width - len(filled)), "dim")
