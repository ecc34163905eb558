"""`spade why`: print the waits of a run, and their root causes."""

from spade.app.commands.options import Json, Keys, LiveRun
from spade.app.printing import print_json, say
from spade.errors import BusError, RunError


def why(run: LiveRun, json: Json = False, keys: Keys = None) -> None:
    """Print the waits between a run's processes, the longest first.

    Each line names the process that waits, the process it waits for, and the time. Exit code 1 if the replay service,
    which all others wait for, does not answer.
    """
    import trio

    from spade.app.screen.observe import ask_live, explain
    from spade.app.screen.reach import ANSWER_S, reach

    at = reach(run, keys)
    try:
        status = trio.run(ask_live, at, ANSWER_S)
    except* BusError:
        holders = ", ".join(sorted({str(holder) for holder in at.holders().values()})) or "another host"
        raise RunError(
            f"replay: no answer within {ANSWER_S:g} s, and all others wait for it (held by {holders}); "
            f"its log is {'logs/replay.log' if at.run is None else at.run.logs / 'replay.log'}"
        ) from None
    if json:
        print_json({"lines": explain(status), "waits": status.waits})
        return
    for line in explain(status):
        say(line)
