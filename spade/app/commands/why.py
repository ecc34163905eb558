"""`spade why`: who waits for whom and for how long."""

from pathlib import Path

import msgspec
import trio

from spade.app.printing import say
from spade.app.rundir import RunDir
from spade.app.screen.observe import ANSWER_S, ask_status, explain, observer
from spade.errors import BusError, RunError
from spade.protocol import Status


def print_waits(path: Path) -> None:
    """`spade why`. Raises RunError where the replay service itself does not answer, which all others wait for."""
    run = RunDir(path)
    try:
        status = trio.run(_ask, run)
    except* BusError:
        holders = ", ".join(map(str, run.holders()))
        raise RunError(
            f"replay: no answer within {ANSWER_S:g} s, and all others wait for it (held by pid {holders}); "
            f"its log is {run.logs / 'replay.log'}"
        ) from None
    for line in explain(status):
        say(line)


async def _ask(run: RunDir) -> Status:
    bus = msgspec.structs.replace(run.require().config().bus, call_deadline_s=ANSWER_S)
    async with observer(run, bus) as client:
        return await ask_status(client)
