"""`spade status`: print the status of a run."""

from spade.app.commands.options import Json, Keys, LiveRun
from spade.app.printing import print_json, say
from spade.text import line


def status(run: LiveRun, json: Json = False, keys: Keys = None) -> None:
    """Print the status of a run, live or as it was left."""
    import trio

    from spade.app.screen.observe import by_part, ended, evaluated, read_status, sentence, tool_use, unforeseen
    from spade.app.screen.reach import reach
    from spade.app.screen.verdict import verdict

    at = reach(run, keys)
    found, origin = trio.run(read_status, at), None if at.run is None else at.run.origin
    if json:
        print_json({**found.flat(), "origin": origin, "verdict": verdict(found).text})
        return
    say(verdict(found).text)
    say(sentence(found))
    for told in filter(None, (tool_use(found), ended(found), evaluated(found), str(origin or ""))):
        say(told)
    for row in by_part(found):
        say(row)
    # Names of actors that joined carry their host.
    names = [line(process.name) for process in found.processes]
    width = max(map(len, names), default=0)
    for name, process in zip(names, found.processes, strict=True):
        waits = f"waits for {process.detail}" if process.state == "waiting" else ""
        told = f"  {name:<{width}}  {process.pid:>7}  {process.state:<10}  restarts {process.restarts}"
        say("  ".join(filter(None, (told, process.host, waits))))
    for fault in unforeseen(found):
        say(fault)
