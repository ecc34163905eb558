"""`spade why`: the waits of a run, and their root causes."""

from spade.app.commands.options import RunArgument
from spade.app.printing import say
from spade.errors import BusError, RunError


def why(run: RunArgument) -> None:
    """Print the waits between a run's processes, the longest first.

    Each line names the process that waits, the process it waits for, and the time. Exit code 1 if the replay service,
    which all others wait for, does not answer.
    """
    import msgspec
    import trio

    from spade.app.rundir import RunDir
    from spade.app.screen.observe import ANSWER_S, ask_live, explain

    found = RunDir(run)
    bus = msgspec.structs.replace(found.require().config().bus, call_deadline_s=ANSWER_S)
    try:
        status = trio.run(ask_live, found, bus)
    except* BusError:
        holders = ", ".join(map(str, found.holders()))
        raise RunError(
            f"replay: no answer within {ANSWER_S:g} s, and all others wait for it (held by pid {holders}); "
            f"its log is {found.logs / 'replay.log'}"
        ) from None
    for line in explain(status):
        say(line)
