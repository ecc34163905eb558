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
from spade.processes.entry import Launch
from spade.protocol import CloseEpisode, Done, Generate, Generated, GiveUp, Overdue, Weights
from tests.actors.engines.gate import gated
from tests.actors.small_services import SmallReplay, process, small_replay
from tests.conftest import write_checkpoint
from tests.peers import connected

DEADLINE_S = 120  # of what takes seconds on an idle machine


def settings(**supervise) -> configuration.Config:
    return configuration.Config(
        model=configuration.Model(path="tiny", profile="nano", dtype="float32"),
        engine=configuration.Engine(rows=4, context_tokens=128, threads=1, device="cpu"),
        bus=configuration.Bus(heartbeat_s=0.1, silence_s=5.0, call_deadline_s=DEADLINE_S),
        supervise=configuration.Supervise(**supervise),
    )


async def gauges(replay, met):
    """Those of a coming heartbeat of the engine, once `met` holds of them."""
    while True:
        await replay.changes()
        for beat in replay.server.heartbeats.values():  # the first pulse goes out with the handshake
            if met(beat.gauges):
                return beat.gauges


def idle(told):
    return told.get("rows_active", 1) + told.get("queue", 1) == 0


def engine_of(replay):
    """Its address."""
    return next(hello.address for hello in replay.server.peers.values() if hello.role == "engine")


@asynccontextmanager
async def running(config, weights):
    """An engine that is ready, a caller connected to it and the replay service behind it."""
    replay = SmallReplay()
    replay.weights = weights
    async with (
        small_replay(replay, config) as server,
        process(engine_server.run, "engine", server, config),
        connected(engine_of(replay), config, "agent") as caller,
    ):
        yield caller, replay


def launch(server):
    # As on a machine of a cluster, of whose GPUs it is to see none.
    return Launch("engine-0", "engine", "", "", server.address, "tcp://127.0.0.1:0", gpus=())


def published(folder, version):
    from spade.policy.model import compute_parameters_digest

    return Weights(version, version - 1, compute_parameters_digest(folder), str(folder))


def request(seed, tokens=12):
    prompt = np.random.default_rng(seed).integers(3, 256, 5 + seed % 20)
    return Generate(pack_ids(prompt.tolist()), tokens, 1.0, seed)


async def test_serves_many_at_once_as_one_alone(tiny_checkpoint):
    config = settings()
    replies = {}

    async def ask(caller, seed):
        replies[seed] = await caller.call(request(seed))

    async with running(config, published(tiny_checkpoint, 3)) as (caller, replay):
        async with trio.open_nursery() as nursery:
            for seed in range(30):
                nursery.start_soon(ask, caller, seed)
        again = await caller.call(request(7))
        told = await gauges(replay, lambda told: "rows_active" in told)
    assert len(replies) == 30
    assert all(isinstance(reply, Generated) and {v for v, _ in reply.versions} == {3} for reply in replies.values())
    assert again.ids == replies[7].ids
    assert {"rows_active", "queue", "tokens_per_s", "policy_version"} <= told.keys()
    assert told["policy_version"] == 3


async def test_waits_for_the_first_weights_then_follows_new_ones(tiny_checkpoint, tmp_path_factory):
    config = settings()
    other = write_checkpoint(tmp_path_factory.mktemp("other"), seed=1)
    replay, ready = SmallReplay(), trio.Event()
    async with small_replay(replay, config) as server, trio.open_nursery() as nursery:
        nursery.start_soon(engine_server.run, launch(server), config, ready.set)
        await gauges(replay, lambda _: True)
        assert not ready.is_set()
        await replay.announce(published(tiny_checkpoint, 1))
        await ready.wait()
        async with connected(engine_of(replay), config, "agent") as caller:
            first = await caller.call(request(5))
            await replay.announce(published(other, 2))
            while (second := await caller.call(request(5))).versions == first.versions:
                assert second.ids == first.ids
        nursery.cancel_scope.cancel()
    assert first.versions[0][0] == 1
    assert second.versions[-1][0] == 2


async def test_no_weights_in_time_is_an_error_that_says_so():
    config = settings(ready_s=0.3)
    async with small_replay(SmallReplay(), config) as server:
        with pytest.raises(BusError, match=r"supervise\.ready_s = 0\.3 s"):
            await engine_server.run(launch(server), config, lambda: None)


async def test_refuses_what_cannot_be_served(tiny_checkpoint):
    config = settings()
    async with running(config, published(tiny_checkpoint, 1)) as (caller, _):
        with pytest.raises(RefusedError, match=r"exceed engine.context_tokens = 128"):
            await caller.call(request(1, tokens=200))
        with pytest.raises(RefusedError, match="does not serve CloseEpisode"):
            await caller.call(CloseEpisode("e"))
        assert isinstance(await caller.call(request(1)), Generated)


async def test_forgets_what_a_peer_that_left_had_asked(tiny_checkpoint, monkeypatch):
    config, steps = settings(), gated(monkeypatch)
    rows = config.engine.rows - 1  # that one role may have
    async with running(config, published(tiny_checkpoint, 1)) as (caller, replay):
        async with trio.open_nursery() as nursery, connected(engine_of(replay), config, "designer") as leaver:
            for seed in range(40):
                nursery.start_soon(leaver.call, request(seed, tokens=100))
            await gauges(replay, lambda told: told.get("queue", 0) >= 40 - rows)
            steps.release(2)  # the first of them may have begun alone
            await gauges(replay, lambda told: told["rows_active"] >= rows)
            nursery.cancel_scope.cancel()
        steps.release(10_000)
        await gauges(replay, idle)
        assert isinstance(await caller.call(request(1)), Generated)


async def test_a_request_that_its_sender_gives_up_frees_its_row(tiny_checkpoint, monkeypatch):
    config, steps = settings(), gated(monkeypatch)
    async with running(config, published(tiny_checkpoint, 1)) as (_, replay):
        other = msgspec.structs.replace(request(2, tokens=4), name="b")
        async with connected(engine_of(replay), config, "gateway") as gateway, trio.open_nursery() as nursery:
            for seed, name in enumerate("ab"):  # neither of them ends soon
                asked = msgspec.structs.replace(request(seed, tokens=100), name=name)
                nursery.start_soon(gateway.call, asked)
            # The first may have begun alone: another step for each report without both.
            await gauges(replay, lambda told: told.get("rows_active") == 2 or steps.release())
            await gateway.call(GiveUp("a"))
            await gateway.call(GiveUp("none"))
            steps.release(2)
            await gauges(replay, lambda told: told.get("rows_active") == 1)
            async with connected(engine_of(replay), config, "gateway", "gateway-1") as stranger:
                await stranger.call(GiveUp("b"))
                steps.release(10_000)
                assert isinstance(await stranger.call(other), Generated)
                assert await gateway.call(GiveUp("b")) == Done()
            nursery.cancel_scope.cancel()
        await gauges(replay, idle)


async def test_an_overdue_request_is_given_up_and_says_where_its_time_went(tiny_checkpoint):
    config, replies = settings(), []

    async def ask(caller, seed):
        replies.append(await caller.call(msgspec.structs.replace(request(seed, tokens=100), deadline_s=0.01)))

    async with running(config, published(tiny_checkpoint, 1)) as (caller, replay):
        async with trio.open_nursery() as nursery:
            for seed in range(60):
                nursery.start_soon(ask, caller, seed)
        late = [reply for reply in replies if isinstance(reply, Overdue)]
        assert any(reply.sampled_s == 0 for reply in late)
        assert all(reply.waited_s + reply.sampled_s > 0.01 for reply in late)
        assert all(isinstance(reply, Generated | Overdue) for reply in replies)
        told = await gauges(replay, lambda told: told.get("overdue", 0) >= len(late))
        assert told["overdue"] == len(late)
        await gauges(replay, idle)
        assert isinstance(await caller.call(request(1)), Generated)


@pytest.mark.parametrize(("many", "few"), [("designer", "agent"), ("agent", "designer")])
async def test_a_role_that_fills_the_engine_lets_the_other_through(tiny_checkpoint, monkeypatch, many, few):
    """An agent's turn is answered while many designs still wait, and the other way round."""
    config, steps, ended = settings(), gated(monkeypatch), []

    async def ask(caller, role, seed, tokens):
        await caller.call(request(seed, tokens))
        ended.append(role)

    async with (
        running(config, published(tiny_checkpoint, 1)) as (agent, replay),
        connected(engine_of(replay), config, "designer") as designer,
        trio.open_nursery() as nursery,
    ):
        callers = {"agent": agent, "designer": designer}
        for seed in range(16):
            nursery.start_soon(ask, callers[many], many, seed, 80)
        await gauges(replay, lambda told: told.get("queue", 0) >= 13)
        nursery.start_soon(ask, callers[few], few, 5, 3)
        told = await gauges(replay, lambda told: f"queue_{few}" in told)
        steps.release(10_000)
    assert ended.index(few) <= 3, "those that had begun before"
    assert {"queue_agent", "queue_designer", "queue_s"} <= told.keys()
