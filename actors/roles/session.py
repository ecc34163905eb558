"""The common session of a designer and an agent: profile, tokenizer, and connections that outlive their work.

An order to leave cancels the work alone, an order to retire lets it run out. What it has to say to the replay service
goes through an outbox, which is emptied over connections that close last.
"""

import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

from actors.nano.prompts import NanoProfile
from actors.roles.pool import Pool, open_pool
from actors.text.profile import Profile
from actors.text.prompts import FullProfile
from replay.client import ReplayClient
from spade.config import Config, digest
from spade.errors import BusError, RefusedError
from spade.policy import model_folder
from spade.processes.entry import RETIRE, Launch
from spade.protocol import PROTOCOL_VERSION, Generate, Generated, Hello, Overdue, Role
from spade.tokens import Dialogue, Tokenizer, dialogues
from spade.transport import connect

log = logging.getLogger(__name__)


class OverdueError(BusError):
    """An engine did not finish a request in time."""


@dataclass(frozen=True)
class Session:
    """The connections of one actor, and the outbox of its results; `gauges` travel with its heartbeats.

    `dialogue` begins a play.
    """

    config: Config
    tokenizer: Tokenizer
    dialogue: Callable[[], Dialogue]
    profile: Profile
    replay: ReplayClient
    engines: Pool
    runners: Pool
    outbox: trio.Nursery
    retiring: trio.Event

    @property
    def gauges(self) -> dict[str, float]:
        """This process's figures; names in `docs/metrics.md`."""
        return self.replay.client.gauges

    @property
    def parting_s(self) -> float:
        """Time for one farewell, s, so that all of them fit into supervise.drain_s."""
        return self.config.supervise.drain_s / 4

    async def generate(
        self, prompt: bytes, max_tokens: int, temperature: float, seed: int, near: str = ""
    ) -> Generated:
        """Sample a continuation at the engine with the least to do, at another where that is lost.

        Prompts that begin alike and say the same `near` are sampled at the same one, which has their keys.
        Raises OverdueError where it took longer than engine.request_deadline_s, BusError where no engine gives one.
        """
        config = self.config
        request = Generate(prompt, max_tokens, temperature, seed, deadline_s=config.engine.request_deadline_s)
        # The engine gives up first, so that it samples nothing in vain, and gives the reason.
        reply = await self.engines.call(request, request.deadline_s + config.bus.call_deadline_s, near)
        if isinstance(reply, Overdue):
            raise OverdueError(
                f"an engine had no answer within engine.request_deadline_s = {request.deadline_s:g} s: "
                f"{reply.waited_s:.1f} s in its queue, {reply.sampled_s:.1f} s being sampled; add engines or raise it"
            )
        return reply

    async def hand_in(self, deliver: Callable[[], Awaitable[None]]) -> None:
        """Wait for `deliver`, a call of the replay service; cancelling the wait does not stop the delivery."""
        arrived = self.send(deliver)
        await arrived.wait()

    def send(self, deliver: Callable[[], Awaitable[None]]) -> trio.Event:
        """Run `deliver` in the outbox, which outlives the work; the event is set when it is done."""
        arrived = trio.Event()
        self.outbox.start_soon(_post, deliver, arrived)
        return arrived

    async def services(self) -> None:
        """Wait for an engine and an env-runner; the log names the missing one."""
        for pool, name in ((self.engines, self.engines.role), (self.runners, "env-runner")):
            while not await pool.available(self.config.bus.call_deadline_s):
                log.warning("no live %s within %g s; waiting on", name, self.config.bus.call_deadline_s)


async def attend(
    launch: Launch,
    config: Config,
    lease_s: float,
    ready: Callable[[], None],
    work: Callable[[Session], Awaitable[None]],
    corpus: str = "",
) -> None:
    """Connect, be ready, and work until told to leave.

    `lease_s` is how long the replay service may be away, `corpus` the digest of the documents to design from.
    """
    tokenizer = Tokenizer.load(model_folder.resolve(config.model.path), thinking=config.model.thinking)
    dialogue = dialogues(tokenizer, config.play.thoughts)
    profile = load_profile(config)
    hello = Hello(PROTOCOL_VERSION, digest(config), launch.role, launch.name, os.getpid(), corpus=corpus)
    elsewhere = config.endpoint.url and launch.role in config.endpoint.roles
    sampler: Role = "endpoint" if elsewhere else "engine"
    working, retiring = trio.CancelScope(), trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_pass_on, working)
        await nursery.start(_retire_on_signal, retiring)
        with trio.CancelScope() as connections:
            async with (
                connect(launch.replay, hello, bus=config.bus) as client,
                open_pool(sampler, client, hello, bus=config.bus) as engines,
                open_pool("env-runner", client, hello, bus=config.bus) as runners,
            ):
                connections.shield = True
                replay = ReplayClient(client, lease_s)
                async with trio.open_nursery() as outbox:
                    session = Session(config, tokenizer, dialogue, profile, replay, engines, runners, outbox, retiring)
                    ready()
                    with working:
                        await work(session)
                    outbox.cancel_scope.deadline = trio.current_time() + session.parting_s
        nursery.cancel_scope.cancel()


def load_profile(config: Config) -> Profile:
    """The profile that model.profile names."""
    return NanoProfile() if config.model.profile == "nano" else FullProfile(config.design, config.play)


async def _post(deliver: Callable[[], Awaitable[None]], arrived: trio.Event) -> None:
    try:
        await deliver()
    except RefusedError as error:
        # The replay service has it otherwise by now; nothing that we could do again would change that.
        log.warning("%s", error)
    arrived.set()


async def _retire_on_signal(retiring: trio.Event, task_status: trio.TaskStatus[None]) -> None:
    with trio.open_signal_receiver(RETIRE) as signals:
        task_status.started()
        async for _ in signals:
            log.info("retiring: nothing more is leased")
            retiring.set()


async def _pass_on(working: trio.CancelScope) -> None:
    """Cancel the work when the process is cancelled."""
    try:
        await trio.sleep_forever()
    finally:
        working.cancel()
