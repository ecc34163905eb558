"""The replay service as its tests run it: in this process or in one of its own, with peers, or by hand."""

from contextlib import asynccontextmanager

import msgspec
import trio

from replay.service import process
from replay.service.service import Service
from replay.store.load import open_run
from spade import protocol
from spade.processes.entry import Launch
from spade.transport import IncomingRequest
from tests import peers
from tests.peers import changed, supervised
from tests.replay.everyone import everyone
from tests.replay.feeding import design, publish
from tests.replay.replay_world import config

# Two slots; windows of one chunk of 4 plays; batches of 4.
SETTINGS = config(
    "design.active_environments=2", "design.round_jobs=2", "design.active_skills=1", "play.window_chunks=1",
    "play.group_size=4", "learner.batch_sequences=4", "bus.heartbeat_s=0.1", "bus.silence_s=0.5",
    "bus.call_deadline_s=120", "replay.durability=sync", "design.attempts=1000",
)  # fmt: skip
# A service of its own process that has to wait for a busy machine is not gone.
APART = changed(SETTINGS, bus={"silence_s": 30.0})


def address(run):
    return f"ipc://{run}/replay"


@asynccontextmanager
async def serving(run, settings=SETTINGS, **orders):
    """The service in this process; `orders` are further fields of its launch."""
    launch = Launch("replay", "replay", "", str(run), address(run), bind=address(run), **orders)
    ready = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(process.run, launch, settings, ready.set)
        await ready.wait()
        yield
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def joined(run, role=None, name="", serves=None, settings=SETTINGS):
    """A peer of a role, or of all that a test asks in."""
    at = address(run), settings
    async with everyone(*at) if role is None else peers.joined(*at, role, name, serves) as replay:
        yield replay


@asynccontextmanager
async def looping(run, settings=SETTINGS):
    """The service in this process, a peer, the first weights and an environment."""
    async with serving(run, settings), joined(run, settings=settings) as replay:
        await publish(replay)
        await design(replay)
        yield replay


@asynccontextmanager
async def apart(run, settings):
    """The service in a process of its own, and a peer; yields them as (supervisor, peer)."""
    async with supervised(run, settings, "replay") as supervisor, joined(run, settings=settings) as replay:
        yield supervisor, replay


def rows(run):
    return [msgspec.json.decode(line) for line in (run / "metrics.jsonl").read_bytes().splitlines()]


def waits_of(status, who):
    return [wait for wait in status.waits if wait.who == who]


class ByHand:
    """A service that is given its rounds one by one, by one peer."""

    def __init__(self, run, store, settings=SETTINGS):
        self.hello = protocol.Hello(protocol.PROTOCOL_VERSION, "", "agent", "agent-0", 1)
        self.peers = {b"peer": self.hello}
        self.answers = []
        self._service = Service(settings, run, store, open_run(store, settings))

    async def reply(self, incoming, response):
        self.answers.append(response)

    async def ask(self, request):
        """The answer to a round of one request."""
        await self._service._round(self, [IncomingRequest(b"peer", self.hello, 1, request)])
        return self.answers.pop()
