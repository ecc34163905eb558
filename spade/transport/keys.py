"""CURVE keys as files: a host's own key, the services' key that it trusts, and the keys of allowed clients.

docs/security.md ("Keys") lists the files of a key folder. In addition, `hosts/NAME/` is the key folder of the host
NAME, which you move to that host. Files are ZeroMQ certificates, as czmq and pyzmq write them. Their metadata has the
name and the roles.
"""

import os
import re
import shutil
import socket
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from zmq.auth import create_certificates, load_certificate

from spade.config import Bus
from spade.disk import list_folder, open_draft, open_regular, read_all
from spade.errors import ConfigError, RunError, format_reason
from spade.keyfiles import OTHERS
from spade.text import quote
from spade.transport.rights import ACTORS, HOST, LOCAL, ROLES, Grant

SERVER, CLIENT = "server", "client"
_OTHERS_WRITE = 0o022
_KEY_BYTES = 40
_HOW = "`spade keys new DIR` makes keys"
_NAME_LETTERS = frozenset("-_.")


class Pair(NamedTuple):
    """A key pair. Both halves are Z85 text."""

    public: bytes
    """The public half."""

    secret: bytes
    """The secret half."""


def create(folder: Path, hosts: Sequence[str], roles: Collection[str] = HOST) -> list[Path]:
    """Make the key folder if it is missing, and a key folder for each new host. Returns the new folders.

    Processes of the new hosts may take `roles`. If one of these is an actor's role, the role "supervisor" is added,
    which `spade actors up` needs. Processes of the run's own host may take all roles. Raises ConfigError for an unknown
    role, for a name that already has a key, and for a name that is not a valid file name.
    """
    _check_roles(roles, "--roles")
    if set(roles) & set(ACTORS):
        roles = {*roles, "supervisor"}
    for host in hosts:
        _check_name(host)
        if _name_allowed(folder, host).exists():
            raise ConfigError(
                f"{_name_allowed(folder, host)}: {host} has a key already; remove that file to withdraw the key"
            )
    made = []
    if not _name_secret(folder, SERVER).exists():
        _make_directory(folder / "allowed")
        with open_draft(folder) as new:
            _make_pair(new, SERVER)
            _make_client(new, LOCAL, ROLES)
            # The services' secret comes last, so that a folder with this file has all other files.
            os.replace(_name_public(new, CLIENT), _name_allowed(folder, LOCAL))
            for file in (_name_secret(folder, CLIENT), _name_public(folder, SERVER), _name_secret(folder, SERVER)):
                os.replace(new / file.name, file)
        made.append(folder)
    for host in hosts:
        home = folder / "hosts" / host
        _make_directory(home)
        with open_draft(folder) as new:
            _make_client(new, host, roles)
            _make_private(Path(shutil.copy(_name_public(folder, SERVER), new)))
            for file in (_name_secret(home, CLIENT), _name_public(home, SERVER)):
                os.replace(new / file.name, file)
            os.replace(_name_public(new, CLIENT), _name_allowed(folder, host))
        made.append(home)
    return made


def read_server_pair(folder: Path) -> Pair:
    """Read the services' key pair. Raises ConfigError, also if others may change the keys of the folder, RunError."""
    if found := find_writable_places(folder):
        raise ConfigError(found[0])
    return _load_pair(_name_secret(folder, SERVER))


def read_client_pair(folder: Path) -> Pair:
    """Read this host's own key pair. Raises ConfigError."""
    return _load_pair(_name_secret(folder, CLIENT))


def read_server_public(folder: Path) -> bytes:
    """Read the services' public key. Raises ConfigError."""
    return _load(_name_public(folder, SERVER))[0]


def read_client_name(folder: Path) -> str:
    """Return the name of this host's own key on the allow-list. Raises ConfigError."""
    path = _name_secret(folder, CLIENT)
    _load(path)
    if name := _read_metadata(path, "name"):
        return name
    raise ConfigError(f"{path}: the key does not name its host; {_HOW} in a new folder")


def make_command_tag(bus: Bus) -> str:
    """Return the pid and host of this command, unique among all commands of a run.

    If the command has a key, the host is named as in the key.
    """
    return f"{os.getpid()}@{read_client_name(Path(bus.keys)) if bus.keys else socket.gethostname()}"


def read_allowed(folder: Path) -> dict[bytes, Grant]:
    """Read the allow-list: public key → grant. Raises ConfigError if a file is not a key, RunError, OSError."""
    return {_load(path)[0]: _read_grant(path) for path in _list_keys(folder / "allowed", ".key")}


def _list_keys(folder: Path, ending: str) -> list[Path]:
    """Return the files of a folder with this suffix. Raises RunError if the folder cannot be listed."""
    return [folder / name for name in list_folder(folder) if name.endswith(ending)]


def _list_homes(folder: Path) -> list[Path]:
    """Return the key folders of hosts in a key folder. Raises RunError if they cannot be listed."""
    return [folder / "hosts" / name for name in list_folder(folder / "hosts")]


def find_secret_faults(folder: Path) -> list[str]:
    """Describe each secret that is damaged or that others may read, in a key folder and in its folders for hosts."""
    faults = []
    for path in sorted(path for place in (folder, *_list_homes(folder)) for path in _list_keys(place, ".key_secret")):
        try:
            _load_pair(path)
        except ConfigError as error:
            faults.append(str(error))
    return faults


def find_writable_places(folder: Path) -> list[str]:
    """Describe each place where others may change keys: a folder with keys, or a public key.

    Raises RunError if a place cannot be looked at.
    """
    folders = [folder, folder / "allowed", folder / "hosts", *_list_homes(folder)]
    public = [path for place in folders for path in _list_keys(place, ".key")]
    places = [place for place in sorted((*folders, *public)) if _read_mode(place) & _OTHERS_WRITE]
    return [
        f"{place}: others may change the keys here; `chmod go-w {quote(place)}`, and check them" for place in places
    ]


def _read_mode(path: Path) -> int:
    """Return the mode of a file, or 0 if it is gone. Raises RunError."""
    try:
        return path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:
        raise RunError(f"{path}: {format_reason(error)}") from None


def _describe_exposed_secret(path: Path) -> str:
    """Describe how others may read a secret. Returns "" if they cannot, or if the file is gone."""
    if not _read_mode(path) & OTHERS:
        return ""
    return f"{path}: others may read this secret; `chmod 600 {quote(path)}`, and make new keys if they did"


def _read_grant(path: Path) -> Grant:
    """Return the grant of a key. A key without roles grants nothing."""
    _check_name(path.stem)
    roles = frozenset(_read_metadata(path, "roles").replace(",", " ").split())
    _check_roles(roles, f"{path}: roles")
    return Grant(path.stem, roles)


def _check_name(host: str) -> None:
    if not host or host[0] == "." or not all(letter.isalnum() or letter in _NAME_LETTERS for letter in host):
        raise ConfigError(f"{host!r} is not a valid host name: use letters, digits, '-', '_' and '.'")


def _check_roles(roles: Collection[str], where: str) -> None:
    if unknown := sorted(set(roles).difference(ROLES)):
        raise ConfigError(f"{where}: {unknown[0]!r} is not a role; there are {', '.join(ROLES)}")


def _make_client(folder: Path, name: str, roles: Collection[str]) -> None:
    """Make a client's key pair. The public half names the roles, as a file of the allow-list must."""
    _make_pair(folder, CLIENT, {"name": name})
    public = _name_public(folder, CLIENT)
    # pyzmq writes metadata only into the secret half.
    given = f"metadata\n    roles = {','.join(sorted(roles))}\n"
    public.write_text(public.read_text(encoding="utf-8").replace("metadata\n", given), encoding="utf-8")


def _make_pair(folder: Path, name: str, metadata: dict[str, str] | None = None) -> None:
    for path in create_certificates(folder, name, metadata):
        _make_private(Path(path))


def _read_metadata(path: Path, name: str) -> str:
    """Return an entry of a certificate's metadata, or "" if it is missing.

    pyzmq itself reads only the keys.
    """
    try:
        text = read_all(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({format_reason(error)})") from None
    found = re.search(rf'^[ \t]*{name}[ \t]*=[ \t]*"?([^"\n]*?)"?[ \t]*$', text, re.MULTILINE)
    return found[1] if found else ""


def _load_pair(path: Path) -> Pair:
    public, secret = _load(path)
    if secret is None:
        raise ConfigError(f"{path}: there is no secret key in it; {_HOW}")
    if why := _describe_exposed_secret(path):
        raise ConfigError(why)
    return Pair(public, secret)


def _load(path: Path) -> tuple[bytes, bytes | None]:
    try:
        open_regular(path).close()  # load_certificate would wait for the writer of a FIFO
        public, secret = load_certificate(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is missing or is not a key ({format_reason(error)}); {_HOW}") from None
    if any(key is not None and len(key) != _KEY_BYTES for key in (public, secret)):
        raise ConfigError(f"{path}: a key has {_KEY_BYTES} characters; {_HOW}")
    return public, secret


def _make_directory(path: Path) -> None:
    """Make a folder and its missing parents, all private."""
    if not path.is_dir():
        _make_directory(path.parent)
        path.mkdir(mode=0o700)


def _make_private(path: Path) -> None:
    path.chmod(0o600)


def _name_public(folder: Path, name: str) -> Path:
    return folder / f"{name}.key"


def _name_secret(folder: Path, name: str) -> Path:
    return folder / f"{name}.key_secret"


def _name_allowed(folder: Path, name: str) -> Path:
    return folder / "allowed" / f"{name}.key"
