"""The small commands: status, stop, top, export, report."""

import shutil
import signal
import time
from pathlib import Path

import trio

from spade.app.printing import print_json, say, show
from spade.app.rundir import RunDir
from spade.disk import whole
from spade.errors import RunError
from spade.text import line

PICTURE = (100, 30)  # columns and lines of a drawn view


def print_status(path: Path, as_json: bool) -> None:
    """`spade status`."""
    from spade.app.observe import evaluated, read_status, sentence, unforeseen

    status = trio.run(read_status, RunDir(path))
    if as_json:
        print_json(status)
        return
    say(sentence(status))
    if measured := evaluated(status):
        say(measured)
    # Names of actors that joined carry their host.
    names = [line(process.name) for process in status.processes]
    width = max(map(len, names), default=0)
    for name, process in zip(names, status.processes, strict=True):
        say(f"  {name:<{width}}  {process.pid:>7}  {process.state:<10}  restarts {process.restarts}")
    for told in unforeseen(status):
        say(told)


def show_top(path: Path) -> None:
    """`spade top`: until Ctrl-C, or until nothing of the run is up."""
    from spade.app.observe import REFRESH_S, follow, interactive, narrate, observer

    run = RunDir(path)

    async def watch() -> None:
        async with observer(run) as client, trio.open_nursery() as nursery:
            if interactive():
                nursery.start_soon(follow, client, "Ctrl-C detaches; the run goes on")
            else:
                nursery.start_soon(narrate, client, say)
            await _until_down(run, REFRESH_S)
            nursery.cancel_scope.cancel()
        say(f"{run.path}: stopped")

    try:
        trio.run(watch)
    except* KeyboardInterrupt:
        pass


async def _until_down(run: RunDir, every_s: float) -> None:
    while True:
        if not run.holders():
            return
        await trio.sleep(every_s)


def draw_top(path: Path, svg: Path) -> None:
    """`spade top --svg`: the view of a live run, or of how a run was left, as a picture."""
    import io

    from spade.app.observe import read_status
    from spade.app.screen import Screen
    from spade.app.view import render

    width, height = PICTURE
    status = trio.run(read_status, RunDir(path))
    console = Screen(width=width, height=height, record=True, file=io.StringIO(), force_terminal=True)
    console.print(render(status, width, height), height=height)
    console.save_svg(str(svg), title=line(f"spade top {path}"))
    say(str(svg))


def stop_run(path: Path) -> None:
    """`spade stop`: ask every holder of the run to drain, and wait until all have gone."""
    run = RunDir(path).require()
    holders = run.holders()
    if not holders:
        raise RunError(f"{run.path}: nothing is up")
    # Learner and actors may be held apart from the replay service; each drains its own children.
    patience = time.monotonic() + 6 * run.config().supervise.drain_s
    for pid in holders:
        run.tell(pid, signal.SIGTERM)
    while left := run.holders():
        if time.monotonic() > patience:
            raise RunError(f"{run.path}: still draining (pid {', '.join(map(str, left))}); its logs are in {run.logs}")
        time.sleep(0.05)
    say(f"{run.path}: stopped")


def newest_weights(run: RunDir) -> Path:
    """The folder of the newest published policy. Raises RunError where none was published."""
    from replay.inspect.environments import newest_weights as read

    weights = read(run.store)
    if weights is None:
        raise RunError(f"{run.path}: no policy was published yet")
    # Not weights.path: that is where the run lay when it was published.
    folder = run.weights / weights.digest
    if not folder.is_dir():
        raise RunError(f"{folder}: the newest policy, version {weights.version}, is missing")
    return folder


def export_model(path: Path, out: Path) -> None:
    """`spade model export`: the folder appears when it is complete, though a live learner retires what is copied."""
    run = RunDir(path).require()
    with whole(out) as part:
        shutil.copytree(newest_weights(run), part)
    say(f"{out}: the newest policy of {run.path}")


def print_nano_report(model: str, seed: int, as_json: bool) -> None:
    """`spade nano report`; of a run directory, before its first step and now (as JSON: now)."""
    from spade.app.nano.report import compared, report
    from spade.checkpoints import resolve

    run = RunDir(Path(model))
    origin = resolve(run.config().model.path if run.exists else model)
    result = report(newest_weights(run) if run.exists else origin, origin, seed)
    if as_json:
        print_json(result)
    else:
        show(compared(report(origin, origin, seed), result) if run.exists else str(result))
