"""`spade status`: print the status of a run."""

from spade.app.commands.options import Json, Keys, LiveRun
from spade.app.printing import print_json, say
from spade.text import as_line


def status(run: LiveRun, json: Json = False, keys: Keys = None) -> None:
    """Print a run's status: live, or the last one of a stopped run."""
    import trio

    from spade.app.screen.observe import (
        describe_end,
        describe_evaluated,
        describe_status,
        describe_tool_use,
        describe_unforeseen,
        read_status,
        tabulate_parts,
    )
    from spade.app.screen.reach import reach
    from spade.app.screen.verdict import judge_run

    at = reach(run, keys)
    found, origin = trio.run(read_status, at), None if at.run is None else at.run.origin
    if json:
        print_json({**found.flat(), "origin": origin, "verdict": judge_run(found).text})
        return
    say(judge_run(found).text)
    say(describe_status(found))
    for told in filter(
        None, (describe_tool_use(found), describe_end(found), describe_evaluated(found), str(origin or ""))
    ):
        say(told)
    for row in tabulate_parts(found):
        say(row)
    # The name of a joined actor contains its host, so it can be long.
    names = [as_line(process.name) for process in found.processes]
    width = max(map(len, names), default=0)
    for name, process in zip(names, found.processes, strict=True):
        waits = f"waits for {process.detail}" if process.state == "waiting" else ""
        told = f"  {name:<{width}}  {process.pid:>7}  {process.state:<10}  restarts {process.restarts}"
        say("  ".join(filter(None, (told, process.host, waits))))
    for fault in describe_unforeseen(found):
        say(fault)
