"""The pages that a key opens in the live view: the list of keys, and the newest environment with its last play."""

import textwrap
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from replay.inspect.plays import KeptPlay, read_newest_play
from spade.app.rundir import RunDir
from spade.app.screen.controls import KEYS
from spade.app.screen.panel import make_panel
from spade.codec import split_runs
from spade.errors import SpadeError
from spade.policy import model_folder
from spade.text import as_line, make_visible

if TYPE_CHECKING:
    from spade.tokens import Tokenizer

STYLE = "cyan"
_MOST_HINT = 300  # characters


def draw_keys() -> RenderableType:
    """Draw the page of the keys."""
    table = Table.grid(padding=(0, 2))
    for key, effect in KEYS:
        table.add_row(Text(key, "bold"), Text(effect))
    return make_panel(table, "keys", STYLE, "Ctrl-C works as in the view")


def read_newest(run: RunDir | None, width: int, height: int) -> RenderableType:
    """Draw the newest environment that has a finished play. If it cannot be read, draw the reason."""
    if run is None:
        return make_panel(Text("give the run's directory: an address does not reach the store"), "newest", STYLE)
    try:
        kept = read_newest_play(run.store)
        config = run.config()
        tokenizer = _load_tokenizer(model_folder.resolve(config.model.path), config.model.thinking)
    except (SpadeError, OSError) as error:
        return make_panel(Text(as_line(str(error), 500)), "newest", STYLE)
    return _draw_play(kept, tokenizer, width, height)


@cache
def _load_tokenizer(folder: Path, thinking: bool) -> "Tokenizer":
    """Return the tokenizer of a checkpoint. It is cached, because the page is drawn twice a second."""
    from spade.tokens import Tokenizer  # at the top, this import would take a third of the start of `spade status`

    return Tokenizer.load(folder, thinking=thinking)


def _draw_play(kept: KeptPlay, tokenizer: "Tokenizer", width: int, height: int) -> RenderableType:
    """Draw the figures of a play, and below them as many of its last lines as fit. Text that the model read is dim."""
    record, environment = kept.record, kept.environment
    arm = "hinted" if record.hinted else "unhinted"
    head = [
        Text(as_line(f"{environment.name}  {environment.id}  {environment.skill}", 500), "bold"),
        Text(as_line(f"hint: {kept.source.hint or '–'}", _MOST_HINT), "dim"),
        Text(f"{arm}, instance {record.index}: return {record.episode_return:g} in {record.turns} turns", STYLE),
    ]
    room = max(height - 2 - 2 * len(head), 1)
    lines = [
        Text(part, "" if sampled else "dim")
        for sampled, ids in split_runs(kept.trajectory)
        for line in tokenizer.decode(ids).splitlines()
        for part in textwrap.wrap(make_visible(line), max(width - 4, 8))
    ]
    return make_panel(
        Group(*head, Text(), *lines[-room:]),
        "newest environment, its last play",
        STYLE,
        "e or Esc goes back",
    )
