"""The bus: trio over ZeroMQ, and the only package that imports zmq.

`serve` binds a ROUTER that many `connect`ed DEALERs call. Frames: the client sends [id, payload], id 8 bytes
big-endian; the server sends the same back, id 0 for a push. Delivery is at least once: a client keeps every request
until its reply and sends all that is open again after each new handshake, so services must be idempotent. Addresses
that other machines reach use CURVE (`curve`, `keys`; docs/security.md); a peer may send the requests of its role alone
(`rights`).
"""

from spade.transport.client import Client, connect
from spade.transport.inbox import Inbox, Incoming
from spade.transport.server import Server, serve

__all__ = ["Client", "Inbox", "Incoming", "Server", "connect", "serve"]
