"""Foreign servers: their options, and a stand-in for their policy."""

import hashlib
import socket
from pathlib import Path
from typing import NamedTuple

import trio

from actors.play.voices.server import ChatServer
from spade.app.evaluation.policies import PinnedPolicy
from spade.config import Config
from spade.disk import expand_home
from spade.errors import ConfigError, SpadeError
from spade.keyfiles import read_key
from spade.text import as_line
from spade.transport import Client

_ASKED_S = 60.0  # seconds for a server to name its models
_LONGEST = 1_000  # characters of a URL


class ServerOptions(NamedTuple):
    """An OpenAI-compatible server."""

    url: str
    """Root URL of the server's API."""

    model: str
    """Name of the model, or "" for the only model of the server."""

    key: str
    """File with the key for the server, or "" to send no key."""

    @classmethod
    def typed(cls, option: str, url: str, model: str, key: str) -> "ServerOptions | None":
        """Make a server from typed options. Returns None if all are empty. Raises ConfigError if a URL is needed."""
        if not url and (model or key):
            raise ConfigError(f"{option}: is missing, but a model or a key of that server is given")
        return cls(url, model, key) if url else None

    @property
    def settings(self) -> dict[str, object]:
        """Return the settings that let the server sample from token ids in place of engines."""
        key = str(expand_home(self.key).absolute()) if self.key else ""
        return {
            "endpoint.url": self.url,
            "endpoint.model": self.model,
            "endpoint.key": key,
            "endpoint.roles": ["evaluator"],
            "actors.engines": 0,
            "engine.arithmetic": "model",
        }

    @property
    def name(self) -> str:
        """Return the model and its address, for people."""
        return f"{as_line(self.model, 60) or 'the model'} at {as_line(self.url, 120)}"

    @property
    def digest(self) -> str:
        """Return a digest of the server and its model, 32 hex digits."""
        return hashlib.blake2b(f"{self.url}\0{self.model}".encode(), digest_size=16).hexdigest()

    def policy(self, folder: Path) -> PinnedPolicy:
        """Return a stand-in for the server's policy, which cannot be pinned. `folder` has the tokenizer."""
        return PinnedPolicy(self.digest, folder, self.name)

    def open(self, deadline_s: float) -> ChatServer:
        """Open a connection to its chats. Raises ConfigError if the key cannot be read."""
        return ChatServer(self.url, read_key(self.key, "key"), deadline_s)

    def found(self, option: str) -> "ServerOptions":
        """Return the options with the model's name filled in.

        Raises ConfigError if the URL is malformed or the server does not answer. The error names the `option`.
        """
        printable = self.url.isprintable() and len(self.url) <= _LONGEST
        if not (printable and self.url.startswith(("http://", "https://"))):
            raise ConfigError(f"{option}: write http://HOST:PORT/v1 instead of {as_line(self.url, 200)!r}")

        async def ask() -> str:
            async with self.open(_ASKED_S) as server:
                return await server.model(self.model)

        try:
            return self._replace(model=trio.run(ask))
        except SpadeError as error:
            raise ConfigError(f"{option}: {error}") from None


class Servers(NamedTuple):
    """The servers of an evaluation."""

    policy: ServerOptions | None = None
    """The server that samples, or None if our engines sample."""

    tokens: bool = False
    """True if we send token ids to the server of `policy`. False if we send chats."""

    user: ServerOptions | None = None
    """The server that plays the users of harnesses. None if the policy plays them."""


async def wait_for_gateway(config: Config, client: Client) -> ServerOptions:
    """Wait until an engine is up and the run's own gateway answers. Return the gateway.

    `client` is the connection to the replay service.
    """
    while not any(peer.role == "engine" for peer in client.pulse.peers):
        await client.wait_pulse()
    found = ServerOptions(f"http://{config.serve.address}/v1", config.serve.name, config.serve.key)
    async with found.open(_ASKED_S) as server:
        while True:
            try:
                await server.model(found.model)
                return found
            except ConfigError:
                await client.wait_pulse()


def choose_address(host: str, port: int = 0) -> str:
    """Return HOST:PORT, with a free port in place of 0. So a restarted gateway keeps its address."""
    return f"{f'[{host}]' if ':' in host else host}:{port or _find_free_port(host)}"


def _find_free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        try:
            probe.bind((host, 0))
        except OSError as error:
            raise ConfigError(f"--host {host}: {error.strerror}") from None
        return int(probe.getsockname()[1])
