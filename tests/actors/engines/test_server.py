"""The engine process over real sockets, with a replay service reduced to what an engine asks of one."""

from contextlib import asynccontextmanager

import msgspec
import numpy as np
import pytest
import trio

from actors.engines import server as engine_server
from spade import config as configuration
from spade.codec import pack_ids
from spade.errors import BusError, RefusedError
from spade.process import Launch
from spade.protocol import PROTOCOL_VERSION, CloseEpisode, Generate, Generated, Hello, Overdue, Pulse, Ready, Weights
from spade.transport import connect, serve
from tests.actors.engines.gate import gated
from tests.conftest import write_checkpoint

DEADLINE_S = 120  # of what takes seconds on an idle machine


def settings(**supervise) -> configuration.Config:
    return configuration.Config(
        model=configuration.Model(path="tiny", profile="nano", dtype="float32"),
        engine=configuration.Engine(rows=4, context_tokens=128, threads=1, device="cpu"),
        bus=configuration.Bus(heartbeat_s=0.1, silence_s=5.0, call_deadline_s=DEADLINE_S),
        supervise=configuration.Supervise(**supervise),
    )


class Replay:
    """Announces weights and hears heartbeats; the rest of the service is not needed here."""

    def __init__(self, weights):
        self.announced = list(weights)
        self.server = None
        self._beat = trio.Event()

    def pulse(self):
        beat, self._beat = self._beat, trio.Event()
        beat.set()
        return Pulse((), self.announced[-1] if self.announced else None)

    async def gauges(self):
        """Those of the engine's next heartbeat."""
        await self._beat.wait()
        while not self.server.heartbeats:  # the first pulse goes out with the handshake
            await self._beat.wait()
        return next(iter(self.server.heartbeats.values())).gauges

    async def announce(self, weights):
        self.announced.append(weights)
        for peer in list(self.server.peers):
            await self.server.push(peer, weights)


@asynccontextmanager
async def replay_service(tmp_path, config, weights):
    replay = Replay(weights)
    async with serve(
        f"ipc://{tmp_path}/replay",
        digest=configuration.digest(config),
        bus=config.bus,
        ready=lambda hello: Ready((), replay.pulse().weights),
        pulse=replay.pulse,
    ) as server:
        replay.server = server
        yield replay


@asynccontextmanager
async def running(tmp_path, config, weights):
    """An engine that is ready, a caller connected to it and the replay service behind it."""
    async with replay_service(tmp_path, config, weights) as replay, trio.open_nursery() as nursery:
        ready = trio.Event()
        launch = Launch("engine-0", "engine", "", "", replay.server.address, f"ipc://{tmp_path}/engine")
        nursery.start_soon(engine_server.run, launch, config, ready.set)
        await ready.wait()
        hello = Hello(PROTOCOL_VERSION, configuration.digest(config), "agent", "agent-0", 1)
        async with connect(f"ipc://{tmp_path}/engine", hello, bus=config.bus) as caller:
            yield caller, replay
        nursery.cancel_scope.cancel()


def published(folder, version):
    from spade.policy.model import parameters_digest

    return Weights(version, version - 1, parameters_digest(folder), str(folder))


def request(seed, tokens=12):
    prompt = np.random.default_rng(seed).integers(3, 256, 5 + seed % 20)
    return Generate(pack_ids(prompt.tolist()), tokens, 1.0, seed)


async def test_serves_many_at_once_as_one_alone(tmp_path, tiny_checkpoint):
    config = settings()
    replies = {}

    async def ask(caller, seed):
        replies[seed] = await caller.call(request(seed))

    with trio.fail_after(DEADLINE_S):
        async with running(tmp_path, config, [published(tiny_checkpoint, 3)]) as (caller, replay):
            async with trio.open_nursery() as nursery:
                for seed in range(30):
                    nursery.start_soon(ask, caller, seed)
            again = await caller.call(request(7))
            while "rows_active" not in (gauges := await replay.gauges()):
                pass
    assert len(replies) == 30
    assert all(isinstance(reply, Generated) and {v for v, _ in reply.versions} == {3} for reply in replies.values())
    assert again.ids == replies[7].ids
    assert {"rows_active", "queue", "tokens_per_s", "policy_version"} <= gauges.keys()
    assert gauges["policy_version"] == 3


async def test_waits_for_the_first_weights_then_follows_new_ones(tmp_path, tiny_checkpoint, tmp_path_factory):
    config = settings()
    other = write_checkpoint(tmp_path_factory.mktemp("other"), seed=1)
    with trio.fail_after(DEADLINE_S):
        async with replay_service(tmp_path, config, []) as replay, trio.open_nursery() as nursery:
            ready = trio.Event()
            launch = Launch("engine-0", "engine", "", "", replay.server.address, f"ipc://{tmp_path}/engine")
            nursery.start_soon(engine_server.run, launch, config, ready.set)
            await replay.gauges()
            assert not ready.is_set()
            await replay.announce(published(tiny_checkpoint, 1))
            await ready.wait()
            hello = Hello(PROTOCOL_VERSION, configuration.digest(config), "agent", "agent-0", 1)
            async with connect(f"ipc://{tmp_path}/engine", hello, bus=config.bus) as caller:
                first = await caller.call(request(5))
                await replay.announce(published(other, 2))
                while (second := await caller.call(request(5))).versions == first.versions:
                    assert second.ids == first.ids
            nursery.cancel_scope.cancel()
    assert first.versions[0][0] == 1
    assert second.versions[-1][0] == 2


async def test_no_weights_in_time_is_an_error_that_says_so(tmp_path):
    config = settings(ready_s=0.3)
    with trio.fail_after(DEADLINE_S):
        async with replay_service(tmp_path, config, []) as replay:
            launch = Launch("engine-0", "engine", "", "", replay.server.address, f"ipc://{tmp_path}/engine")
            with pytest.raises(BusError, match=r"no weights were published within supervise.ready_s = 0\.3 s"):
                await engine_server.run(launch, config, lambda: None)


async def test_refuses_what_cannot_be_served(tmp_path, tiny_checkpoint):
    config = settings()
    with trio.fail_after(DEADLINE_S):
        async with running(tmp_path, config, [published(tiny_checkpoint, 1)]) as (caller, _):
            with pytest.raises(RefusedError, match=r"exceed engine.context_tokens = 128"):
                await caller.call(request(1, tokens=200))
            with pytest.raises(RefusedError, match="does not serve CloseEpisode"):
                await caller.call(CloseEpisode("e"))
            assert isinstance(await caller.call(request(1)), Generated)


async def test_forgets_what_a_peer_that_left_had_asked(tmp_path, tiny_checkpoint, monkeypatch):
    config, steps = settings(), gated(monkeypatch)
    rows = config.engine.rows - 1  # that one role may have
    with trio.fail_after(DEADLINE_S):
        async with running(tmp_path, config, [published(tiny_checkpoint, 1)]) as (caller, replay):
            hello = Hello(PROTOCOL_VERSION, configuration.digest(config), "designer", "designer-0", 2)
            address = f"ipc://{tmp_path}/engine"
            async with trio.open_nursery() as nursery, connect(address, hello, bus=config.bus) as leaver:
                for seed in range(40):
                    nursery.start_soon(leaver.call, request(seed, tokens=100))
                while (await replay.gauges()).get("queue", 0) < 40 - rows:
                    pass
                steps.release(2)  # the first of them may have begun alone
                while (await replay.gauges())["rows_active"] < rows:
                    pass
                nursery.cancel_scope.cancel()
            steps.release(10_000)
            while (gauges := await replay.gauges())["rows_active"] + gauges["queue"]:
                pass
            assert isinstance(await caller.call(request(1)), Generated)


async def test_what_is_overdue_is_given_up_and_says_where_its_time_went(tmp_path, tiny_checkpoint):
    config, replies = settings(), []

    async def ask(caller, seed):
        replies.append(await caller.call(msgspec.structs.replace(request(seed, tokens=100), deadline_s=0.01)))

    with trio.fail_after(DEADLINE_S):
        async with running(tmp_path, config, [published(tiny_checkpoint, 1)]) as (caller, replay):
            async with trio.open_nursery() as nursery:
                for seed in range(60):
                    nursery.start_soon(ask, caller, seed)
            late = [reply for reply in replies if isinstance(reply, Overdue)]
            assert any(reply.sampled_s == 0 for reply in late)
            assert all(reply.waited_s + reply.sampled_s > 0.01 for reply in late)
            assert all(isinstance(reply, Generated | Overdue) for reply in replies)
            while (gauges := await replay.gauges()).get("overdue", 0) < len(late):
                pass
            assert gauges["overdue"] == len(late)
            while (gauges := await replay.gauges())["rows_active"] + gauges["queue"]:
                pass
            assert isinstance(await caller.call(request(1)), Generated)


@pytest.mark.parametrize(("many", "few"), [("designer", "agent"), ("agent", "designer")])
async def test_a_role_that_fills_the_engine_lets_the_other_through(tmp_path, tiny_checkpoint, monkeypatch, many, few):
    """An agent's turn is answered while many designs still wait, and the other way round."""
    config, steps, ended = settings(), gated(monkeypatch), []

    async def ask(caller, role, seed, tokens):
        await caller.call(request(seed, tokens))
        ended.append(role)

    with trio.fail_after(DEADLINE_S):
        async with running(tmp_path, config, [published(tiny_checkpoint, 1)]) as (agent, replay):
            hello = Hello(PROTOCOL_VERSION, configuration.digest(config), "designer", "designer-0", 2)
            async with connect(f"ipc://{tmp_path}/engine", hello, bus=config.bus) as designer:
                callers = {"agent": agent, "designer": designer}
                async with trio.open_nursery() as nursery:
                    for seed in range(16):
                        nursery.start_soon(ask, callers[many], many, seed, 80)
                    while (await replay.gauges()).get("queue", 0) < 13:
                        pass
                    nursery.start_soon(ask, callers[few], few, 5, 3)
                    while f"queue_{few}" not in (gauges := await replay.gauges()):
                        pass
                    steps.release(10_000)
    assert ended.index(few) <= 3, "those that had begun before"
    assert {"queue_agent", "queue_designer", "queue_s"} <= gauges.keys()
