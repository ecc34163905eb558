"""CURVE keys as files: who a host is, which service it trusts, which clients a service lets in.

A key folder, as `spade keys new` makes it (folders of mode 0700, files of mode 0600):

    server.key             public key of the run's services
    server.key_secret      their secret; only where services bind
    client.key_secret      this host's own key pair
    allowed/NAME.key       the allow-list: public keys of the clients that are let in, read at every handshake
    hosts/NAME/            a key folder for the host NAME, to be moved there

Files are ZeroMQ certificates, as czmq and pyzmq write them.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from zmq.auth import create_certificates, load_certificate

from spade.errors import ConfigError

SERVER, CLIENT, LOCAL = "server", "client", "local"
_OTHERS = 0o077
_KEY_BYTES = 40
_HOW = "`spade keys new DIR` makes keys"
_NAME_LETTERS = frozenset("-_.")


class Pair(NamedTuple):
    """A key pair, both halves Z85."""

    public: bytes
    secret: bytes


def create(folder: Path, hosts: Sequence[str]) -> list[Path]:
    """Make the key folder if there is none, and in it one for each new host; returns what was made.

    Raises ConfigError for a name that cannot be a file's, or that is taken.
    """
    for host in hosts:
        if not host or host[0] == "." or not all(letter.isalnum() or letter in _NAME_LETTERS for letter in host):
            raise ConfigError(f"{host!r} is no name for a host: use letters, digits, '-', '_' and '.'")
        if _allowed(folder, host).exists():
            raise ConfigError(f"{_allowed(folder, host)}: {host} has a key already; remove that file to take it back")
    made = []
    if not _secret(folder, SERVER).exists():
        _directory(folder / "allowed")
        _make_pair(folder, SERVER)
        _make_client(folder, folder, LOCAL)
        made.append(folder)
    for host in hosts:
        home = folder / "hosts" / host
        _directory(home)
        _make_client(folder, home, host)
        _private(Path(shutil.copy(_public(folder, SERVER), home)))
        made.append(home)
    return made


def server_pair(folder: Path) -> Pair:
    """The services' key pair. Raises ConfigError."""
    return _load_pair(_secret(folder, SERVER))


def client_pair(folder: Path) -> Pair:
    """This host's own key pair. Raises ConfigError."""
    return _load_pair(_secret(folder, CLIENT))


def server_public(folder: Path) -> bytes:
    """The services' public key. Raises ConfigError."""
    return _load(_public(folder, SERVER))[0]


def allowed(folder: Path) -> dict[bytes, str]:
    """The allow-list: public key → name, as it is on disk now. Raises ConfigError for a file that is no key."""
    return {_load(path)[0]: path.stem for path in sorted((folder / "allowed").glob("*.key"))}


def _make_client(folder: Path, home: Path, name: str) -> None:
    """A client's key pair in `home`, its public half on the allow-list of `folder`."""
    _make_pair(home, CLIENT)
    _public(home, CLIENT).rename(_allowed(folder, name))


def _make_pair(folder: Path, name: str) -> None:
    for path in create_certificates(folder, name):
        _private(Path(path))


def _load_pair(path: Path) -> Pair:
    public, secret = _load(path)
    if secret is None:
        raise ConfigError(f"{path}: there is no secret key in it; {_HOW}")
    if path.stat().st_mode & _OTHERS:
        raise ConfigError(f"{path}: others may read this secret; `chmod 600 {path}`, and make new keys if they did")
    return Pair(public, secret)


def _load(path: Path) -> tuple[bytes, bytes | None]:
    try:
        public, secret = load_certificate(path)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is missing or no key ({error}); {_HOW}") from None
    if any(key is not None and len(key) != _KEY_BYTES for key in (public, secret)):
        raise ConfigError(f"{path}: a key has {_KEY_BYTES} characters; {_HOW}")
    return public, secret


def _directory(path: Path) -> None:
    """Make a folder, private like each of ours above it."""
    if not path.is_dir():
        _directory(path.parent)
        path.mkdir(mode=0o700)


def _private(path: Path) -> None:
    path.chmod(0o600)


def _public(folder: Path, name: str) -> Path:
    return folder / f"{name}.key"


def _secret(folder: Path, name: str) -> Path:
    return folder / f"{name}.key_secret"


def _allowed(folder: Path, name: str) -> Path:
    return folder / "allowed" / f"{name}.key"
