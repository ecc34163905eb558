"""Check the addresses of the bus, of an endpoint, of the gateway and of environment servers."""

import ipaddress
import re
from urllib.parse import urlsplit

from spade.config.sections import Bus, Endpoint, Sandbox, Serve
from spade.errors import ConfigError


def check_endpoint(endpoint: Endpoint, train_designs: bool) -> None:
    """Raise ConfigError for a malformed URL, or for roles that leave nothing to train."""
    if endpoint.url and not _is_http(endpoint.url):
        raise ConfigError(f"endpoint.url: write http://HOST:PORT/v1, is {endpoint.url!r}")
    if endpoint.serves("designer") and endpoint.serves("agent"):
        raise ConfigError("endpoint.roles: the endpoint samples for designer and agent, so nothing would be trained")
    if endpoint.serves("agent") and not train_designs:
        raise ConfigError(
            "endpoint.roles: the endpoint samples for agents and design.train = false, so nothing would be trained"
        )


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and parts.hostname is not None and parts.port != 0
    except ValueError:  # raised for a port that is not a number, or for an unmatched bracket
        return False


def check_servers(sandbox: Sandbox) -> None:
    """Raise ConfigError for a malformed address of an environment server."""
    for address in sandbox.servers:
        if not is_server(address):
            raise ConfigError(f"sandbox.servers: write http://HOST:PORT without a slash at the end, is {address!r}")


def is_server(address: str) -> bool:
    """Return True if this can be the address of an environment server."""
    return _is_http(address) and not re.search(r"[@?#\s]|/$", address)


def check_serve(serve: Serve) -> None:
    """Raise ConfigError for a malformed address, or if other machines can reach the gateway without a key."""
    host, _, port = serve.address.rpartition(":")
    if not (host and _is_port(port)):
        raise ConfigError(f"serve.address: write HOST:PORT, is {serve.address!r}")
    if not (serve.key or is_loopback(host)):
        raise ConfigError(
            f"serve.address: {host!r} can be reached by other machines and needs a key (--key FILE), and a "
            "proxy with TLS in front"
        )


def is_local(address: str) -> bool:
    """Return True if only this machine can reach a bus address."""
    return address.startswith("ipc://") or is_loopback(address.removeprefix("tcp://").rpartition(":")[0])


def is_loopback(host: str) -> bool:
    """Return True if a host's name or address is a loopback one, so that other machines cannot reach it."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _is_port(text: str) -> bool:
    return re.fullmatch("[0-9]{1,5}", text) is not None and 0 < int(text) < 65_536


def check_bind(bus: Bus) -> None:
    """Raise ConfigError for a malformed address, or for one that other machines reach without keys."""
    if not bus.bind:
        return
    host, _, port = bus.bind.removeprefix("tcp://").rpartition(":")
    if not (bus.bind.startswith("tcp://") and host and _is_port(port)):
        raise ConfigError(f"bus.bind: write tcp://HOST:PORT, is {bus.bind!r}")
    if host in ("*", "0.0.0.0", "[::]"):
        raise ConfigError(f"bus.bind: other machines cannot connect to {bus.bind}; give an address of this host")
    if not (bus.keys or is_local(bus.bind)):
        raise ConfigError(
            f"bus.bind: {bus.bind} can be reached by other machines and needs keys: "
            "`spade keys new DIR`, then --set bus.keys=DIR"
        )
