"""The frame of each part of the live view."""

from rich.console import RenderableType
from rich.panel import Panel
from rich.text import Text


def make_panel(body: RenderableType, title: str, style: str, below: str = "") -> Panel:
    """Frame a part of the view, with a title above it and a note below it."""
    return Panel(
        body,
        title=Text(title),
        title_align="left",
        subtitle=Text(below) if below else None,
        subtitle_align="left",
        border_style="dim " + style,
        padding=(0, 1),
    )
