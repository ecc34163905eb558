"""The bus: trio over ZeroMQ. Only this package imports zmq.

`serve` binds a ROUTER, and many DEALERs call it with `connect`. The client sends the frames [id, payload]. An id has 8
bytes, big-endian. The server answers with the same id, and pushes messages with id 0.

Delivery is at least once: a client keeps every request until its reply. After each new handshake it sends all open
requests again, so services must be idempotent. Addresses that other machines reach use CURVE (`curve`, `keys`;
docs/security.md). A peer may only send the requests of its role (`rights`).
"""

from spade.transport.client import Client, connect
from spade.transport.inbox import Inbox, IncomingRequest
from spade.transport.pump import WINDOW
from spade.transport.server import Server, serve

__all__ = ["WINDOW", "Client", "Inbox", "IncomingRequest", "Server", "connect", "serve"]
