"""`spade actors`: scale, list and drain the actors of a live run."""

from typing import Annotated

import typer

from spade.app.commands.options import Json, Keys, LiveRun
from spade.app.printing import print_json, say
from spade.text import as_line


def scale(
    run: LiveRun,
    counts: Annotated[
        list[str], typer.Argument(metavar="ROLE=COUNT", help="agents=8, designers=2, runners=1, engines=1")
    ],
    on: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The supervisor of these actors, if there are several (`spade actors ls`)."),
    ] = None,
    keys: Keys = None,
) -> None:
    """Set how many actors of a role run.

    The count lasts until the `up` command ends. A resumed run uses the config's counts. Once you set the number of
    agents or engines, that number no longer follows the load. The counts of other roles stay.
    """
    import trio

    from spade.app.screen.reach import reach
    from spade.app.supervisor import orders

    say(trio.run(orders.scale, reach(run, keys), orders.parse(counts), on))


def ls(run: LiveRun, json: Json = False, keys: Keys = None) -> None:
    """List a run's actors and supervisors, with the wanted counts."""
    import trio

    from spade.app.screen.observe import ask_live
    from spade.app.screen.reach import CONNECT_S, reach
    from spade.app.supervisor.orders import ROLES, list_kept

    status = trio.run(ask_live, reach(run, keys), CONNECT_S)
    if json:
        kept = {name: list_kept(status, name) for name in status.wanted}
        print_json({name: {"wanted": status.wanted[name], "processes": kept[name]} for name in sorted(kept)})
        return
    for supervisor, counts in sorted(status.wanted.items()):
        say(f"{supervisor}: {', '.join(f'{name}={counts.get(role, 0)}' for name, role in ROLES.items())}")
        for process in list_kept(status, supervisor):
            detail = process.detail if process.state != "ready" else ""
            if process.state == "waiting":
                detail = f"waits for {detail}"
            row = f"{as_line(process.name):<24} {process.pid:>7}  {process.state:<10} restarts {process.restarts}"
            say("  ".join(filter(None, (f"  {row}", process.host, detail))))


def drain(
    run: LiveRun,
    name: Annotated[str, typer.Argument(help="An actor's name (`spade actors ls` lists them).")],
    keys: Keys = None,
) -> None:
    """Let one actor finish its current work, and stop it for good."""
    import trio

    from spade.app.screen.reach import reach
    from spade.app.supervisor import orders

    say(trio.run(orders.drain, reach(run, keys), name))
