"""`spade serve`: serve a policy behind an OpenAI-compatible API."""

from pathlib import Path
from typing import Annotated

import typer

from spade.app.commands.options import Recipe, Set
from spade.app.printing import say


def serve(
    model: Annotated[
        str, typer.Argument(metavar="RUN|MODEL", help="A run directory, a checkpoint folder, a hub name, or nano.")
    ],
    host: Annotated[str, typer.Option(help="Address to listen at. --key is required if other machines reach it.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen at; 0 takes any free one.")] = 8_000,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="File with the key that clients must send.")] = None,
    live: Annotated[bool, typer.Option("--live", help="Join a run that is up, and follow its newest policy.")] = False,
    policy: Annotated[
        str, typer.Option(metavar="newest|start|step:N|DIGEST", help="The policy of the run.")
    ] = "newest",
    config: Recipe = None,
    set_: Set = None,
) -> None:
    """Serve a policy behind an API like OpenAI's (docs/serving.md). Ctrl-C stops it.

    The policy stays the same even if its run trains on, unless --live joins the run.
    """
    from spade.app.evaluation.serving import ServeOptions, serve

    serve(ServeOptions(model, host, port, str(key or ""), live, policy, config, set_ or ()), say)
