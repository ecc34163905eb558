"""Coloured and drawn output of commands: rich without markup, with unprintable characters escaped."""

from collections.abc import Iterable
from functools import cache
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from spade.text import as_line, make_visible


class Screen(Console):
    """A console without markup. It escapes unprintable characters as the last step of drawing, so it misses no text."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render to segments. Only rich's own control segments reach the terminal unescaped."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=make_visible(segment.text))

    def on_broken_pipe(self) -> None:
        """Raise the error again. rich would raise SystemExit, which a nursery would wrap in an exception group."""
        raise  # rich calls this while it handles the error

    def tell(self, *parts: str | tuple[str, str]) -> None:
        """Print plain and styled parts as one line."""
        told = (as_line(part) if isinstance(part, str) else (as_line(part[0]), part[1]) for part in parts)
        self.print(Text.assemble(*told), soft_wrap=True)


@cache
def open_screen() -> Screen:
    """Return the one screen of this process. A progress bar and the lines printed above it must share it."""
    return Screen()
