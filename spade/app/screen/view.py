"""The live view: a run's Status as one screen. Pure: the same status and size give the same picture."""

import textwrap
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import RenderableType
from rich.layout import Layout
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from replay.inspect.journal import find_comparable
from spade.app.screen.chart import draw_bar, draw_chart
from spade.app.screen.panel import make_panel
from spade.app.screen.processes import NARROW, WIDE, compute_processes_height, draw_processes_panel
from spade.app.screen.verdict import judge_run
from spade.protocol import Evaluation, Recent, Status
from spade.text import as_line, format_clock
from spade.waits import describe_all, find_root_causes

REGRET, HELD_OUT, HINTED, UNHINTED, LEARNABLE, VALID = "magenta", "bright_green", "cyan", "green", "yellow", "blue"
_TONES = {"good": "bold green", "neutral": "bold", "bad": "bold red"}
_LONGEST_TEXT = 500  # characters; longer texts are cut
_HEADER, _FOOTER, _CHARTS = 1, 1, 6  # the charts get the remaining lines, but at least this many
_BARS = 7  # lines of the panel that shows win rates as bars, without a curve
_LEAST_PROCESSES = 3  # lines
_MOST_VERDICT = 3  # lines
_COLUMNS_SMALL, _COLUMNS_WIDE = 3, 4  # columns of numbers
_NUMBERS_SMALL = 9  # numbers on a screen that is not wide; the others are left out

Number = tuple[str, str]
"""A name and a value, as the view shows them."""


def render(status: Status, width: int, height: int, note: str = "") -> RenderableType:
    """Render the whole screen, `width` × `height` cells. `note` is the line at the bottom (keys, warnings)."""
    status = _make_visible(status)
    judged = _draw_verdict(status, width, height)
    room = height - _HEADER - len(judged) - _FOOTER
    # A small terminal shows the charts and the panels that fit. A narrow one shows win rates and some processes.
    shown = list[Layout]()
    numbers = _arrange_numbers(_list_numbers(status), width)
    if width >= NARROW and room - (lines := len(numbers) + 2) >= _CHARTS:
        shown.append(Layout(_draw_numbers(numbers, status.waiting_for), size=lines))
        room -= lines
    lines = compute_processes_height(len(status.processes), height)
    if width < NARROW:
        lines = min(lines, room - _BARS)
    if lines >= _LEAST_PROCESSES and room - lines >= _CHARTS:
        shown.append(Layout(draw_processes_panel(status.processes, lines, width, height), size=lines))
        room -= lines
    screen = Layout()
    screen.split_column(
        Layout(_draw_header(status), size=_HEADER),
        *(Layout(judgement, size=1) for judgement in judged),
        _draw_charts(status, width, max(room, 1)),
        *shown,
        Layout(_draw_footer(status, note), size=_FOOTER),
    )
    return screen


def show_last(status: Status, steps: int) -> Status:
    """Return a status whose charts show only the last `steps` learner steps, or all if `steps` is 0."""
    histories = msgspec.structs.replace(
        status.histories,
        regret_history=status.histories.regret_history[-steps:],
        win_rate_history=status.histories.win_rate_history[-steps:],
    )
    return msgspec.structs.replace(status, histories=histories)


def _draw_verdict(status: Status, width: int, height: int) -> list[Text]:
    """Wrap the verdict on the run: one line, or several on a narrow screen."""
    judged = judge_run(status)
    most = min(_MOST_VERDICT, max(height // 6, 1))
    rows = textwrap.wrap(judged.text, max(width - 2, 8))
    if len(rows) > most:
        rows = [*rows[: most - 1], " ".join(rows[most - 1 :])]
    return [Text(f" {row}", _TONES[judged.tone], no_wrap=True, overflow="ellipsis") for row in rows]


def _draw_charts(status: Status, width: int, height: int) -> Layout:
    """Lay out the curves of win rates and of regret: side by side, or one above the other on a narrow screen."""
    if _is_unhinted_alone(status):
        return Layout(_draw_win_rates(status, width, height), size=height)
    charts = Layout(size=height)
    if width >= NARROW:
        half = width // 2
        charts.split_row(
            Layout(_draw_regret(status, half, height), size=half), Layout(_draw_win_rates(status, width - half, height))
        )
        return charts
    below = height - _BARS
    if below < _CHARTS - 1:
        return Layout(_draw_win_rates(status, width, height), size=height)
    charts.split_column(
        Layout(_draw_win_rates(status, width, _BARS), size=_BARS),
        Layout(_draw_regret(status, width, below), size=below),
    )
    return charts


def _make_visible(status: Status) -> Status:
    """Copy the status so that every text is one line."""

    def shown(value: Any) -> Any:
        match value:
            case str():
                return as_line(value, _LONGEST_TEXT)
            case list():
                return [shown(item) for item in value]
            case dict():
                return {shown(key): shown(item) for key, item in value.items()}
        return value

    return msgspec.convert(shown(msgspec.to_builtins(status)), Status)


def _draw_header(status: Status) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(" SPADE ", "bold reverse")
    line.append(f" {status.run}", "bold")
    line.append(f"  {format_clock(status.elapsed_s)}")
    line.append(f"  step {status.learner_step}", "bold")
    line.append(f"  policy v{status.policy_version}")
    line.append(f"  {status.counts.plays} plays  {status.traffic.plays_per_s:.1f}/s", "dim")
    return line


def _is_unhinted_alone(status: Status) -> bool:
    """Return True once there are plays and all of them were unhinted. Such a run measures no regret."""
    recent = status.recent
    measured = status.histories.regret_history or recent.win_rate_hinted is not None or recent.regret is not None
    return not measured and recent.win_rate_unhinted is not None


def _draw_regret(status: Status, width: int, height: int) -> Panel:
    recent, history = status.recent, status.histories.regret_history
    title = "regret" if recent.regret is None else f"regret {_format_with_error(recent.regret, recent.regret_error)}"
    steps = len(history)
    below = f"last {steps} learner steps, ░ ± 1 s.e." if steps else "no environment was played in both arms yet"
    return make_panel(draw_chart(history, width - 4, height - 2, REGRET, with_zero=False), title, REGRET, below)


def _draw_win_rates(status: Status, width: int, height: int) -> Panel:
    recent, evaluations = status.recent, find_comparable(status.histories.evaluations)
    rows = [
        ("unhinted", recent.win_rate_unhinted, UNHINTED),
        ("hinted", recent.win_rate_hinted, HINTED),
        ("learnable", recent.learnable_share, LEARNABLE),
        ("valid", recent.validity, VALID),
    ]
    # The subtitle says that the programs change. If the curve is flat or falls, this may be the reason.
    title, below, curve = "win rate and learnable share", "unhinted, on the newest programs", UNHINTED
    history = [(unhinted, recent.win_rate_error or 0.0) for unhinted, _ in status.histories.win_rate_history]
    if evaluations:
        rows.insert(0, ("held-out", evaluations[-1].win_rate, HELD_OUT))
        title, below, curve = _describe_held_out(evaluations, width), "the others: on the newest programs", HELD_OUT
        history = [(one.win_rate, one.error) for one in evaluations]
    if _is_unhinted_alone(status):
        rows = [row for row in rows if row[0] != "hinted"]
        below = f"{below}; no hints, so no regret"
    table = Table.grid(padding=(0, 1))
    room = max(width - 4 - 10 - 6, 4)
    for label, share, style in rows:
        table.add_row(Text(label.ljust(9), style), draw_bar(share, room, style), Text(_format_number(share), "bold"))
    chart_height = height - 2 - len(rows) - 1
    if chart_height < 3:
        return make_panel(table, title, curve, below)
    body = Layout()
    body.split_column(Layout(table, size=len(rows) + 1), Layout(draw_chart(history, width - 4, chart_height, curve)))
    return make_panel(body, title, curve, below)


def _describe_held_out(evaluations: Sequence[Evaluation], width: int) -> str:
    """Describe the newest and the first evaluation, in as many words as fit."""
    first, newest = evaluations[0], evaluations[-1]
    told = f"{newest.win_rate:.2f} ± {newest.error:.2f}, at start {first.win_rate:.2f}"
    on = f" on {newest.suite}" if newest.suite else ""
    worded = (f"held-out win rate{on} {told}", f"held-out win rate {told}", f"held-out {told}")
    return next((words for words in worded if len(words) <= width - 4), worded[-1])


def _list_tool_numbers(recent: Recent) -> list[Number]:
    """Return the additional numbers of a domain with tools. Empty for other domains."""
    if recent.done_share is None:
        return []
    calls = f"{_format_number(recent.calls_per_turn).strip()}, refused {_format_percent(recent.refused_share)}"
    done = f"{_format_percent(recent.done_share)}, free {_format_percent(recent.free_share)}"
    return [("calls", calls), ("malformed", _format_percent(recent.malformed_share)), ("done", done)]


def _list_numbers(status: Status) -> list[Number]:
    """Return the numbers, the most important first."""
    counts, recent, metrics = status.counts, status.recent, status.step_metrics
    return [
        ("environments", f"{status.active_environments} of {counts.environments}"),
        *_list_tool_numbers(recent),
        ("designer reward", _format_number(recent.designer_reward).strip()),
        ("wasted", f"{counts.wasted_share_agent:.1%} / {counts.wasted_share_designer:.1%}"),
        ("no variance", _format_percent(recent.zero_variance_share)),
        ("loss", "–" if metrics is None else f"{metrics.loss:+.4f}, ESS {metrics.effective_sample_share:.0%}"),
        ("step", "–" if metrics is None else f"{metrics.step_s:.1f} s, waited {metrics.wait_s:.1f} s"),
        ("designer groups", str(counts.designer_groups)),
        ("policy lag", _format_number(counts.lag_mean).strip()),
        ("tokens/s", f"{status.traffic.sampled_tokens_per_s:,.0f}"),
        ("rejected", f"{counts.rejected_candidates}, jobs failed {counts.failed_jobs}"),
        ("voids", f"{counts.voids}, leases expired {counts.expired_leases}"),
        ("response", f"{_format_arms(recent.response_tokens, recent.response_tokens_hinted)} tokens"),
        ("turns", _format_arms(recent.turns, recent.turns_hinted)),
        ("lines", f"{_format_short(recent.program_lines)}, hidden {_format_short(recent.hidden_variables)}"),
        ("revealing", _format_percent(recent.revealing_share)),
        ("diversity", "–" if recent.diversity is None else f"{recent.diversity:.3f}"),
    ]


def _arrange_numbers(numbers: list[Number], width: int) -> list[list[Number]]:
    """Arrange the numbers in rows. A screen that is not wide shows only the first numbers."""
    wide = width >= WIDE
    shown, columns = (numbers, _COLUMNS_WIDE) if wide else (numbers[:_NUMBERS_SMALL], _COLUMNS_SMALL)
    return [shown[start : start + columns] for start in range(0, len(shown), columns)]


def _draw_numbers(rows: list[list[Number]], waiting_for: str) -> Panel:
    table = Table.grid(padding=(0, 2), expand=True)
    for _ in rows[0]:
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for row in rows:
        table.add_row(*(Text.assemble((f"{name} ", "dim"), value) for name, value in row))
    return make_panel(table, "the loop", "white", waiting_for)


def _draw_footer(status: Status, note: str) -> Text:
    counts = status.counts
    line = Text(no_wrap=True, overflow="ellipsis")
    if counts.quarantined:
        line.append(f" {counts.quarantined} trajectories quarantined ", "bold red")
        line.append(counts.newest_quarantined + " ")
    if counts.audit_findings:
        line.append(f" {counts.audit_findings} failed their audit ", "yellow")
    if status.traffic.stalled_s:
        line.append(f" stalled for {status.traffic.stalled_s:.0f} s ", "bold red")
        # Show the end of each chain of waits, because it is the cause. Show all waits if they form a circle.
        waits = find_root_causes(status.waits) or status.waits
        line.append("  ".join(describe_all(waits, status.processes)) or status.waiting_for)
        return line
    line.append(f" {note} " if note else " ", "dim")  # rich draws an empty text as a placeholder
    if counts.newest_environment:
        line.append(" newest: ", "dim")
        line.append(counts.newest_environment, "bold")
        line.append(f" ({counts.newest_skill})", "dim")
    return line


def _format_number(value: float | None) -> str:
    return "  – " if value is None else f"{value:.2f}"


def _format_short(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _format_arms(unhinted: float | None, hinted: float | None) -> str:
    return f"{_format_short(unhinted)} / {_format_short(hinted)}"


def _format_percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _format_with_error(value: float, error: float | None) -> str:
    return f"{value:.3f}" if error is None else f"{value:.3f} ± {error:.3f}"
