"""Where commands print in colour and draw: rich without markup, where no text steers the terminal."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from spade.text import line, visible


class Screen(Console):
    """A console that takes no text for markup; what it draws was made visible last, so that nothing is forgotten."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of a renderable; those that are commands to the terminal are rich's own."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))

    def tell(self, *parts: str | tuple[str, str]) -> None:
        """Print one line of plain and styled parts, whatever they hold."""
        told = (line(part) if isinstance(part, str) else (line(part[0]), part[1]) for part in parts)
        self.print(Text.assemble(*told), soft_wrap=True)
