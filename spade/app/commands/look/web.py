"""`spade web`: serve a live page about one or several runs."""

from typing import Annotated

import typer

from spade.app.printing import say

MOST_RUNS = 24
NICENESS = 10


def web(
    runs: Annotated[
        list[str], typer.Argument(metavar="[ARM=]RUN…", help="Run directories, each perhaps with the name of its arm.")
    ],
    host: Annotated[str, typer.Option(help="Address to listen at. Beyond this machine, the page is not encrypted.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen at; 0 takes any free one.")] = 8_600,
) -> None:
    """Serve a live page about runs until Ctrl-C.

    Open the printed address in a browser. The page follows runs that are up, and shows finished ones. It only reads.
    """
    import os
    import secrets
    from contextlib import ExitStack

    import trio

    from spade.app.report.collect import find_runs
    from spade.app.web.following import FollowedRun
    from spade.app.web.pages import Pages
    from spade.app.web.server import LivePage, listen, serve_page

    given = find_runs(runs, MOST_RUNS)
    token = secrets.token_urlsafe(16)

    async def serve() -> None:
        listeners = await listen(host, port)
        found = listeners[0].socket.getsockname()[1]
        name = f"[{host}]" if ":" in host else host
        say(f"http://{name}:{found}/{token}/")
        say("Ctrl-C ends the page; the runs go on")
        await serve_page(LivePage(followed, Pages(followed, [each.arm for each in given]).render, token), listeners)

    with ExitStack() as stack:
        followed = [FollowedRun(each.run, each.name) for each in given]
        for each in followed:
            stack.callback(each.close)
        os.nice(NICENESS)  # the processes of the runs get the processor first
        trio.run(serve)
