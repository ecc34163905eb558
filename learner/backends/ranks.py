"""Command a learner's further ranks from the first rank. The ranks ask the first rank's server for each command.

The backend gives commands in its own thread, and the server answers the ranks in trio's thread. If the connection to a
rank ends, the rank is lost. Then the learner ends, its supervisor starts all ranks again, and they go on from the
checkpoint.
"""

import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import cast

import trio

from learner.backends.meeting import COLLECTIVE, LOOPBACK, find_host, name_of
from spade.config import Config
from spade.errors import SpadeError
from spade.processes.entry import end_within
from spade.protocol import AwaitCommand, Batch, Done, Gather, Load, Meet, Pulse, Refused, Save
from spade.transport import Inbox, IncomingRequest, Server
from spade.transport.pump import run_in_background

GRACE_S = 5.0  # time to notice that a lost rank caused a failure, and time to end the process after a loss
SILENCE_S = COLLECTIVE.total_seconds() + 60.0  # longest work on one command; a collective operation fails earlier

Command = Meet | Batch | Gather | Save | Load | Done

log = logging.getLogger(__name__)


class Ranks:
    """Ranks 1 to `learner.processes` - 1. Call the methods in trio's thread unless they say otherwise."""

    def __init__(self, config: Config) -> None:
        self.count = config.learner.processes
        self.host = LOOPBACK
        self._beat_s = config.bus.heartbeat_s
        self._ready_s = config.supervise.ready_s
        self._server: Server | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._news = threading.Condition()
        self._asked: dict[int, IncomingRequest] = {}  # the newest unanswered request of each rank
        self._told = 0
        self._command: Command = Done()
        self._lost = ""
        self._noticed = trio.Event()

    @property
    def names(self) -> list[str]:
        """Return the names of the ranks' processes."""
        return [name_of(rank) for rank in range(1, self.count)]

    @asynccontextmanager
    async def served(self, server: Server) -> AsyncIterator[None]:
        """Answer the ranks' requests to `server` during the block. Leaves all other requests to others."""
        self._server, self._token = server, trio.lowlevel.current_trio_token()
        self.host = find_host(server.address)
        async with run_in_background(partial(self._serve, server.apart(AwaitCommand))):
            yield

    async def _serve(self, asked: Inbox) -> None:
        while True:
            incoming = await asked.take()
            refused = self._ask(incoming)
            if refused is not None and self._server is not None:
                await self._server.reply(incoming, refused)

    def _ask(self, incoming: IncomingRequest) -> Refused | None:
        """Keep a rank's request until the next command answers it.

        Returns Refused if there is no such rank, or if a newer process of the rank has already asked.
        """
        request, hello = cast(AwaitCommand, incoming.message), incoming.hello
        if not 0 < request.rank < self.count:
            return Refused(f"there is no rank {request.rank} (learner.processes = {self.count})")
        with self._news:
            known = self._asked.get(request.rank)
            if known is not None and hello.life < known.hello.life:
                return Refused(hello.life.over(hello.name, known.hello.life))
            self._asked[request.rank] = incoming
            if self._told and (known is None or known.hello != hello):
                self._lose(f"{name_of(request.rank)}: was started again")
            elif request.number < self._told:  # the command was lost with the rank's connection
                self._reply(incoming)
            self._news.notify_all()
        return None

    async def watch(self) -> None:
        """Raise SpadeError when a rank is lost. End the process if a thread still waits for that rank."""
        while not self._lost:
            for rank, incoming in list(self._asked.items()):
                assert self._server is not None
                # The push fails at once if the rank's process has ended. The server notices only longer silence.
                if not await self._server.push(incoming.peer, Pulse()):
                    self._miss(rank)
            with trio.move_on_after(self._beat_s):
                await self._noticed.wait()
        end_within(GRACE_S, self._lost)
        raise SpadeError(self._lost)

    def close(self) -> None:
        """Give the last command, Done, to all ranks: now if they wait for a command, else when they ask."""
        with self._news:
            self._command = Done()
            self._told += self._told > 0
            for incoming in self._asked.values():
                self._reply(incoming)

    def tell(self, command: Command) -> None:
        """Give each rank this command when all have carried out the previous one. Call this in the backend's thread.

        Raises SpadeError if a rank is lost or too slow.
        """
        deadline_s = SILENCE_S if self._told else self._ready_s
        with self._news:
            if not self._news.wait_for(lambda: self._lost or all(map(self._waits, range(1, self.count))), deadline_s):
                waiting = [name_of(rank) for rank in range(1, self.count) if not self._waits(rank)]
                self._lose(f"{', '.join(waiting)}: did nothing for {deadline_s:g} s")
            if self._lost:
                raise SpadeError(self._lost)
            self._told += 1
            self._command = command
            for incoming in self._asked.values():
                assert self._token is not None
                self._token.run_sync_soon(self._reply, incoming)

    @contextmanager
    def needed(self) -> Iterator[None]:
        """If the block fails because a rank was lost, raise a SpadeError instead. Use it in the backend's thread."""
        try:
            yield
        except SpadeError:
            raise
        except Exception as error:
            with self._news:
                if self._news.wait_for(lambda: self._lost, GRACE_S):
                    raise SpadeError(self._lost) from error
            raise

    def _miss(self, rank: int) -> None:
        with self._news:
            del self._asked[rank]
            if self._told:
                self._lose(f"{name_of(rank)}: is gone")

    def _waits(self, rank: int) -> bool:
        incoming = self._asked.get(rank)
        return incoming is not None and cast(AwaitCommand, incoming.message).number == self._told

    def _reply(self, incoming: IncomingRequest) -> None:
        assert self._server is not None
        self._server.reply_nowait(incoming, self._command)

    def _lose(self, why: str) -> None:
        if not self._lost:
            self._lost = f"{why}; all ranks begin again at the checkpoint"
            log.error("%s", self._lost)
            self._news.notify_all()
            if self._token is not None:
                self._token.run_sync_soon(self._noticed.set)
