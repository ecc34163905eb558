"""Read the live or last status of a run. Show it in lines, or on a screen that follows the run."""

import sys
from collections.abc import Callable, Mapping

import msgspec
import trio
from rich.console import RenderableType
from rich.live import Live

from replay.inspect.journal import find_comparable
from spade.app.rundir import RunDir
from spade.app.screen.console import Screen
from spade.app.screen.controls import Controls, Keyboard
from spade.app.screen.pages import draw_keys, read_newest
from spade.app.screen.reach import ANSWER_S, CONNECT_S, ReachedRun, connect_observer, reach
from spade.app.screen.verdict import describe_beginning, describe_stall, judge_run
from spade.app.screen.view import render, show_last
from spade.decoding import UnreadableError, try_decode
from spade.disk import read
from spade.errors import BusError, RunError, SpadeError, format_placed
from spade.protocol import GetStatus, SkillFigures, Status
from spade.text import format_clock, quote
from spade.transport import Client
from spade.waits import describe_all, find_root_causes

REFRESH_S = 0.5
NO_ANSWER = "the replay service does not answer; waiting for its restart"
STATUS_BYTES = 1 << 26  # bound of a status file

_statuses: msgspec.json.Decoder[Status] = msgspec.json.Decoder(Status)


async def ask_status(client: Client) -> Status:
    """Ask for the run's present status. Raises BusError if the service does not answer."""
    return await client.call(GetStatus(), deadline_s=ANSWER_S)


async def ask_live(at: ReachedRun, patience_s: float) -> Status:
    """Ask for the status of a live run within `patience_s`.

    Raises RunError if the run is down, BusError if the service does not answer.
    """
    async with connect_observer(at, patience_s) as client:
        return await ask_status(client)


async def read_status(at: ReachedRun) -> Status:
    """Read the status of a live run, or the last status of a run that is down."""
    run = at.run
    if run is None or at.holders():
        return await ask_live(at, CONNECT_S)
    try:
        left = try_decode(_statuses.decode, read(run.status_path, STATUS_BYTES))
    except FileNotFoundError:
        raise RunError(
            f"{run.path}: this run left no status yet; `spade up --run {quote(run.path)}` resumes it"
        ) from None
    except UnreadableError as error:
        raise RunError(f"{run.status_path}: is damaged ({error}); the next learner step writes it anew") from None
    stopped = tuple(msgspec.structs.replace(process, state="stopped") for process in left.processes)
    return msgspec.structs.replace(left, processes=stopped)


async def try_read_status(run: RunDir) -> Status | str:
    """Return the live or last status of a run, or the reason why it cannot be read."""
    why: list[str] = []
    try:
        return await read_status(reach(run))
    except* (SpadeError, OSError) as errors:
        why = _list_reasons(errors)
    return f"its status cannot be read: {'; '.join(why)}"


def _list_reasons(errors: BaseExceptionGroup[SpadeError | OSError]) -> list[str]:
    """Return the texts of all errors in a group and in its nested groups."""
    each = (
        _list_reasons(error) if isinstance(error, BaseExceptionGroup) else [format_placed(error)]
        for error in errors.exceptions
    )
    return [why for reasons in each for why in reasons]


async def follow(client: Client, note: str, run: RunDir | None = None, console: Screen | None = None) -> None:
    """Show the live screen until cancelled. Draws on the terminal's alternate screen, so nothing scrolls.

    The page of the newest environment reads the store of `run`.
    """
    console, keyboard = console or Screen(), Keyboard()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keyboard.read)
            status, line = Status(), note
            while True:
                pressed, controls = keyboard.pressed, keyboard.controls
                if controls.paused:
                    line = "paused; p goes on"
                else:
                    try:
                        status = await ask_status(client)
                        line = f"{note}; ? lists the keys"
                    except BusError:
                        line = NO_ANSWER
                live.update(await _draw_page(controls, status, line, run, console), refresh=True)
                with trio.move_on_after(REFRESH_S):
                    await pressed.wait()


async def _draw_page(
    controls: Controls, status: Status, line: str, run: RunDir | None, console: Screen
) -> RenderableType:
    width, height = console.width, console.height
    match controls.page:
        case "keys":
            return draw_keys()
        case "newest":
            return await trio.to_thread.run_sync(read_newest, run, width, height)
    return render(show_last(status, controls.window), width, height, line)


async def narrate(client: Client, say: Callable[[str], None]) -> None:
    """Print a line for each learner step, a verdict for each evaluation, and the waits of a stall, until cancelled.

    Also prints one line whenever the replay service stops answering.
    """
    shown, judged, in_stall, answered = -1, 0, False, True
    while True:
        try:
            status = await ask_status(client)
        except BusError:
            if answered:
                say(NO_ANSWER)
            answered = False
        else:
            answered = True
            if status.learner_step != shown:
                shown = status.learner_step
                say(describe_status(status))
            if len(status.histories.evaluations) != judged:
                judged = len(status.histories.evaluations)
                say(judge_run(status).text)
            if status.traffic.stalled_s and not in_stall:
                for line in explain(status):
                    say(line)
            in_stall = status.traffic.stalled_s > 0
        await trio.sleep(REFRESH_S)


def explain(status: Status) -> list[str]:
    """List lines about a stall and about faulty processes, then one line for each wait."""
    counts = status.counts
    faults = (
        [f"{counts.quarantined} trajectories are quarantined, the last {counts.newest_quarantined}"]
        if counts.quarantined
        else []
    )
    if counts.audit_findings:
        faults.append(f"{counts.audit_findings} environments failed their audit, the last {counts.newest_finding}")
    unplaced = [
        f"{process.name} waits for {process.detail}" for process in status.processes if process.state == "waiting"
    ]
    ill = [
        f"{process.name} is {process.state}{f': {process.detail}' if process.detail else ''}"
        for process in status.processes
        if process.state in ("silent", "restarting", "starting", "failed")
    ]
    holders = [wait.holder for wait in find_root_causes(status.waits)]
    cause = f"in the end, they wait for {', '.join(holders)}" if holders else "the waits form a circle"
    return [
        *filter(None, [describe_beginning(status) or describe_stall(status)]),
        status.waiting_for,
        *faults,
        *unplaced,
        *ill,
        *describe_unforeseen(status),
        *describe_all(status.waits, status.processes),
        *([cause] if status.waits else []),
    ]


def describe_unforeseen(status: Status) -> list[str]:
    """Write a line for each service that met unforeseen errors while serving requests."""
    return [
        f"{process.name} met {count:.0f} unforeseen errors, each in one request; its log has their tracebacks"
        for process in status.processes
        if (count := process.gauges.get("request_faults", 0))
    ]


def describe_status(status: Status) -> str:
    """Describe a status in one line."""
    recent = status.recent

    def show(value: float | None) -> str:
        return "–" if value is None else f"{value:.2f}"

    regret = show(recent.regret) + ("" if recent.regret_error is None else f" ± {recent.regret_error:.2f}")

    held_out = "".join(f"held-out {one.win_rate:.2f} " for one in status.histories.evaluations[-1:])
    return (
        f"{format_clock(status.elapsed_s)} step {status.learner_step} policy v{status.policy_version} "
        f"plays {status.counts.plays} ({status.traffic.plays_per_s:.1f}/s) win rate {held_out}"
        f"{show(recent.win_rate_unhinted)} unhinted {show(recent.win_rate_hinted)} hinted regret {regret} "
        f"learnable {show(recent.learnable_share)} valid {show(recent.validity)}"
    )


def describe_end(status: Status) -> str:
    """Describe in one line the limit that ended the run. Returns "" while the run continues."""
    return f"finished: {status.finished}" if status.finished else ""


def describe_evaluated(status: Status) -> str:
    """Describe the first and the newest evaluation in one line. Returns "" without evaluations."""
    evaluations = find_comparable(status.histories.evaluations)
    if not evaluations:
        return ""
    told = [
        f"{one.win_rate:.2f} ± {one.error:.2f} after step {one.step}"
        + (f" ({one.voids} of {one.plays} plays ended in errors)" if one.voids else "")
        for one in (evaluations[0], *evaluations[1:][-1:])
    ]
    suite = evaluations[-1].suite
    return f"held-out win rate{suite and f' on {suite}'} {' -> '.join(told)}"


def describe_tool_use(status: Status) -> str:
    """Describe the use of tools in one line. Returns "" in a domain without tools."""
    recent = status.recent
    if recent.done_share is None:
        return ""

    def show(share: float | None) -> str:
        return "–" if share is None else f"{share:.0%}"

    calls = "–" if recent.calls_per_turn is None else f"{recent.calls_per_turn:.2f}"
    return (
        f"tools {calls} calls a turn, {show(recent.refused_share)} refused, {show(recent.malformed_share)} malformed; "
        f"instructions {show(recent.done_share)} done, {show(recent.free_share)} of them free"
    )


def tabulate_parts(status: Status) -> list[str]:
    """Tabulate the figures of each skill and each variant, one line each. Return [] if nothing is measured yet."""
    recent = status.recent
    return [*_format_table("skill", recent.skills), *_format_table("variant", recent.variants)]


def _format_table(part: str, figures: Mapping[str, SkillFigures]) -> list[str]:
    if not figures:
        return []
    width = max(map(len, (part, *figures)))
    rows = [f"  {part:<{width}}  unhinted  hinted  regret  learnable"]
    for name, each in figures.items():
        shown = (each.win_rate_unhinted, each.win_rate_hinted, each.regret, each.learnable_share)
        cells = ["–" if value is None else f"{value:.2f}" for value in shown]
        rows.append(f"  {name:<{width}}  {cells[0]:>8}  {cells[1]:>6}  {cells[2]:>6}  {cells[3]:>9}")
    return rows


def is_interactive() -> bool:
    """Return True if the output is a terminal."""
    return sys.stdout.isatty()
