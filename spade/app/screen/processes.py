"""The panel of a run's processes."""

from collections.abc import Sequence

from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from spade.app.screen.panel import make_panel
from spade.protocol import Process

_STATES = {
    "ready": "green",
    "waiting": "yellow",
    "starting": "yellow",
    "restarting": "yellow",
    "draining": "yellow",
    "silent": "red",
    "failed": "red",
}
_FRAME = 2  # lines
WIDE, NARROW = 120, 64
"""Widths of the screen, in columns. Below WIDE the panel leaves out pids, below NARROW also machines."""
# With fewer lines than this, the panel omits its head row, and the column `state` shows how often a process started.
_TALL = 30


def compute_processes_height(processes: int, height: int) -> int:
    """Return the lines of the panel on a screen of `height` lines."""
    return min(processes + _FRAME + (height >= _TALL), max(height // 3, 9))


def draw_processes_panel(processes: Sequence[Process], lines: int, width: int, height: int) -> Panel:
    """Draw as many processes as fit into `lines` lines, on a screen of `width` × `height` cells."""
    table = Table.grid(padding=(0, 2), expand=True)
    tall = height >= _TALL
    room = lines - _FRAME - tall
    machine = max((len(process.host) for process in processes), default=0)
    columns = {"process": 14, "machine": machine, "pid": 7, "state": 10, "restarts": 8}
    left_out = {
        "machine": not machine or width < NARROW,
        "pid": width < WIDE,
        "restarts": width < NARROW or not tall,
    }
    columns = {name: size for name, size in columns.items() if not left_out.get(name)}
    if left_out["restarts"]:
        columns["state"] = 13
    for size in columns.values():
        table.add_column(no_wrap=True, overflow="ellipsis", width=size)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    if tall:
        table.add_row(*(Text(name, "dim") for name in (*columns, "doing")))
    for process in processes[: room if len(processes) <= room else room - 1]:
        cells = _make_cells(process, "restarts" in columns)
        table.add_row(*(cells[name] for name in columns), _describe_doing(process))
    if len(processes) > room:
        table.add_row(Text(f"and {len(processes) - room + 1} more", "dim"))
    return make_panel(table, "processes", "white")


def _make_cells(process: Process, restarts: bool) -> dict[str, Text]:
    """Return the cells of a process by column. Without a column of restarts, the state shows how often it started."""
    starts = f" ×{process.restarts + 1}" if process.restarts and not restarts else ""
    return {
        "process": Text(process.name),
        "machine": Text(process.host, "dim"),
        "pid": Text(str(process.pid), "dim"),
        "state": Text(process.state + starts, _STATES.get(process.state, "dim")),
        "restarts": Text(str(process.restarts), "yellow" if process.restarts else "dim"),
    }


def _describe_doing(process: Process) -> Text:
    """Say what a process does: what it waits for, its last error, or its gauges."""
    if process.state == "waiting":
        return Text(f"waits for {process.detail}", "yellow")
    if process.state != "ready" and process.detail:
        return Text(process.detail, "bold red" if process.state in ("restarting", "failed") else "dim")
    gauges = "  ".join(_format_gauge(name, value) for name, value in process.gauges.items() if value)
    warning = "no sandbox: sandbox.tier = none  " if process.gauges.get("sandbox_tier") == 0 else ""
    return Text.assemble((warning, "bold red"), (gauges, "dim"))


def _format_gauge(name: str, value: float) -> str:
    """Write a gauge as its name without the unit suffix, the figure, and the unit."""
    match name.split("_"):
        case [*words, "per", "s"]:
            return f"{' '.join(words)} {_format_figure(value)}/s"
        case [*words, ("s" | "ms") as unit]:
            return f"{' '.join(words)} {_format_figure(value)} {unit}"
        case [*words, "bytes"]:
            return f"{' '.join(words)} {value / 2**20:.1f} MiB"
        case words:
            return f"{' '.join(words)} {_format_figure(value)}"


def _format_figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value.is_integer() else f"{value:.2f}"
