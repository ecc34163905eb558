"""`spade keys`: make and list key folders."""

from pathlib import Path
from typing import Annotated

import typer

from spade.app.commands.options import Json
from spade.app.printing import complain, print_json, say
from spade.errors import ConfigError, format_reason


def new(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The run's key folder; made if it does not exist.")],
    hosts: Annotated[list[str] | None, typer.Argument(metavar="HOST", help="Make a key folder for each host.")] = None,
    roles: Annotated[
        str | None,
        typer.Option(metavar="ROLE,…", help="Roles of these hosts [default: all that `spade actors up` starts]."),
    ] = None,
) -> None:
    """Make keys for a run and its hosts, and put the hosts on the allow-list.

    A host that may start actors may also supervise them. The run's own host may take any role.
    """
    from spade.transport import keys
    from spade.transport.rights import HOST

    try:
        made = keys.create(folder, hosts or [], HOST if roles is None else roles.replace(",", " ").split())
    except OSError as error:
        raise ConfigError(f"{folder}: keys cannot be written there ({format_reason(error)})") from None
    for path in made:
        if path == folder:
            say(f"{path}: keys of the services and of this machine; use them with --set bus.keys={path}")
        else:
            say(f"{path}: move this folder to {path.name} and delete it here; --set bus.keys=DIR uses it there")
    if not made:
        say(f"{folder}: has its keys already; name hosts to make keys for them")


def ls(folder: Annotated[Path, typer.Argument(metavar="DIR", help="A key folder.")], json: Json = False) -> None:
    """List the hosts that a key folder lets in, with their roles.

    Exit code 1 if a secret is damaged, or if other users may read a secret or change the list.
    """
    from spade.transport import keys

    keys.read_server_public(folder)  # this raises ConfigError if the folder is not a key folder
    allowed = keys.read_allowed(folder)
    if json:
        print_json([{"key": key.decode(), "name": of.name, "roles": sorted(of.roles)} for key, of in allowed.items()])
    for public, grant in () if json else allowed.items():
        roles = ",".join(sorted(grant.roles)) or "no role: remove the file of this host and make a new key"
        say(f"{public.decode()}  {grant.name}  {roles}")
    if found := [*keys.find_secret_faults(folder), *keys.find_writable_places(folder)]:
        for why in found:
            complain(why)
        raise typer.Exit(1)
