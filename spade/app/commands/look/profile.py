"""`spade profile`: measure where a live run's time goes."""

from typing import Annotated

import typer

from spade.app.commands.options import Json, Keys, LiveRun, parse_seconds
from spade.app.printing import print_json, say

_LONGEST_S = 3_600


def profile(
    run: LiveRun,
    duration: Annotated[str, typer.Option("--for", metavar="TIME", help="Time to measure, at most 1h.")] = "60s",
    json: Json = False,
    keys: Keys = None,
) -> None:
    """Measure where a live run's time goes.

    Shows processor time by process and by part, and tokens computed beside tokens used. Only processes on this machine
    are measured. The times of parts need py-spy, which samples stacks from outside.
    """
    from functools import partial

    import trio

    from spade.app.costs.profile import describe_profile, measure_profile
    from spade.app.screen.observe import ask_live
    from spade.app.screen.reach import CONNECT_S, reach

    seconds = max(1, min(round(parse_seconds(duration)), _LONGEST_S))
    found = trio.run(measure_profile, partial(ask_live, reach(run, keys), CONNECT_S), seconds)
    if json:
        print_json(found)
        return
    for line in describe_profile(found):
        say(line)
