"""A client of the replay service that asks each thing in a role that may, over a connection for each role."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from replay.client import ReplayClient
from spade.config import Config, compute_digest
from spade.protocol import PROTOCOL_VERSION, Hello, Role
from spade.transport import Client, connect
from spade.transport.rights import explain_forbidden

ROLES: tuple[Role, ...] = ("agent", "designer", "learner", "evaluator", "observer")


class Everyone(ReplayClient):
    """`client` is the first one's connection."""

    def __init__(self, clients: list[Client], call_deadline_s: float) -> None:
        super().__init__(clients[0], call_deadline_s)
        self._roles = [ReplayClient(client, call_deadline_s) for client in clients]

    async def _call(self, request, wait_s=0.0):
        return await self._who_may(request)._call(request, wait_s)

    async def send(self, request, deadline_s=None):
        """Any request, as a bare client sends it."""
        return await self._who_may(request).client.call(request, deadline_s)

    def _who_may(self, request):
        return next((each for each in self._roles if not explain_forbidden(each.client.hello, request)), self._roles[0])


@asynccontextmanager
async def everyone(address: str, settings: Config, *more: Role) -> AsyncIterator[Everyone]:
    """In every role at once that a test of the replay service asks in, and in these."""
    async with AsyncExitStack() as stack:
        clients = []
        for role in (*ROLES, *more):
            hello = Hello(PROTOCOL_VERSION, compute_digest(settings), role, f"{role}-0", os.getpid())
            clients.append(await stack.enter_async_context(connect(address, hello, bus=settings.bus)))
        yield Everyone(clients, settings.bus.call_deadline_s)
