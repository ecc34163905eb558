"""`spade keys`: key folders made and shown."""

from collections.abc import Sequence
from pathlib import Path

from spade.app.printing import say
from spade.errors import ConfigError, reason
from spade.transport import keys
from spade.transport.rights import HOST


def new_keys(folder: Path, hosts: Sequence[str], roles: str | None) -> None:
    """`spade keys new`; `roles` are separated by commas, None: those of `spade actors up`."""
    try:
        made = keys.create(folder, hosts, HOST if roles is None else roles.replace(",", " ").split())
    except OSError as error:
        raise ConfigError(f"{folder}: keys cannot be written there ({reason(error)})") from None
    for path in made:
        if path == folder:
            say(f"{path}: keys of the services and of this machine; use them with --set bus.keys={path}")
        else:
            say(f"{path}: move this folder to {path.name} and delete it here; --set bus.keys= names it there")
    if not made:
        say(f"{folder}: has its keys already; name hosts to make keys for them")


def list_keys(folder: Path) -> None:
    """`spade keys ls`."""
    keys.server_public(folder)  # what is no key folder is said to be none
    for public, grant in keys.allowed(folder).items():
        roles = ",".join(sorted(grant.roles)) or "no role: remove its file and make it a new key"
        say(f"{public.decode()}  {grant.name}  {roles}")
