"""An unforeseen error while one request is served: its sender hears of it, and the service goes on."""

import logging
import re
from contextlib import asynccontextmanager, closing

import msgspec
import pytest
import trio

from actors.engines.foreign.asyncio_engine import AsyncioEngine
from actors.engines.service.request_queue import RequestQueue
from actors.environments import runner as env_runner
from actors.links.faults import RequestFaults
from actors.sandbox import Sandbox
from spade import config
from spade.codec import pack_floats, pack_ids
from spade.errors import BusError, RefusedError, SuspectError
from spade.processes.entry import Launch, open_service
from spade.processes.logs import LineFormatter
from spade.protocol import Generate, Generated, Observed, StepEpisode, Validate, Verdict
from tests.actors.environments.test_runner import COUNTER, gauge, opening, running, service, small
from tests.actors.small_services import SmallReplay, small_replay
from tests.hostile import frames
from tests.peers import connected

SETTINGS = config.load("nano", ("bus.heartbeat_s=0.05",))


async def test_a_bug_in_serving_one_request_does_not_end_the_env_runner(monkeypatch):
    """No input is known that does this; so the test puts a bug where there is none."""
    validate, step = env_runner.validate, Sandbox.step

    async def buggy_validate(sandbox, source, *arguments):
        if source == "a bug":
            raise ExceptionGroup("of a nursery", [ArithmeticError("\x1b[31mnobody thought of it")])
        if source == "no descriptor":
            raise OSError(24, "Too many open files")
        return await validate(sandbox, source, *arguments)

    async def buggy_step(sandbox, episode, turn, action, *calls):
        if action == "a bug":
            raise KeyError(action)
        return await step(sandbox, episode, turn, action, *calls)

    monkeypatch.setattr(env_runner, "validate", buggy_validate)
    monkeypatch.setattr(Sandbox, "step", buggy_step)
    config = small(episodes=1)
    async with (
        running(config) as (address, replay),
        connected(address, config, "designer") as client,
        connected(address, config, "agent") as player,
    ):
        for _ in range(3):
            with pytest.raises(SuspectError, match=r"Validate .* unforeseen ExceptionGroup"):
                await client.call(Validate("a bug", 1))
        with pytest.raises(RefusedError, match="Too many open files"):
            await client.call(Validate("no descriptor", 1))
        assert isinstance(await player.call(opening("e", COUNTER, 2)), Observed)
        with pytest.raises(SuspectError, match=r"StepEpisode .* unforeseen KeyError"):
            await player.call(StepEpisode("e", 1, "a bug"))
        # Its only place is free again, and the service is what it was.
        verdict = await client.call(Validate(COUNTER, 2))
        assert verdict.passed
        await gauge(replay, "request_faults", lambda count: count == 5)


async def test_an_env_runner_outlives_every_frame_that_a_program_can_write():
    """By admission alone: `python -m tests.hostile.suite` has them at reset and at each step too."""
    at_import = [hostile for hostile in frames.PROGRAMS if hostile.name.endswith(", at import")]
    async with service(small(load_s=10.0), "designer") as (client, replay):
        for hostile in at_import:
            verdict = await client.call(Validate(hostile.source, 1))
            assert isinstance(verdict, Verdict), hostile.name
            assert not verdict.passed
            assert verdict.stages[-1].reason.startswith("protocol: "), hostile.name
            assert verdict.stages[-1].reason.isprintable()
        assert (await client.call(Validate(COUNTER, 2))).passed
        await gauge(replay, "validations", lambda count: count == len(at_import) + 1)
        await gauge(replay, "request_faults", lambda count: count == 0)


class Moody(AsyncioEngine):
    """An engine with a bug at each of its doors, by the seed of the request."""

    def refusal(self, request):
        if request.seed == 1:
            raise ZeroDivisionError
        return "never" if request.seed == 2 else None

    def submit(self, id, request):
        if request.seed == 3:
            raise UnicodeError("in its submission")
        super().submit(id, request)

    async def generate(self, request):
        if request.seed == 4:
            raise RecursionError("in its coroutine")
        if request.seed == 5:
            raise BusError("its own processes have died")
        return Generated(pack_ids([7]), pack_floats([-1.0]), ((1, 1),), "stop")

    def load_weights(self, weights): ...

    def logprobs(self, ids): ...


@asynccontextmanager
async def request_queue(folder):
    """A caller of a moody engine, and the replay service that hears its gauges."""
    async with small_replay(SmallReplay(), SETTINGS) as replay:
        launch = Launch("engine-0", "engine", "", "", replay.address, f"ipc://{folder}/engine")
        with closing(Moody(4)) as engine:
            async with open_service(launch, SETTINGS) as (server, client), trio.open_nursery() as nursery:
                nursery.start_soon(RequestQueue(server, client, engine, SETTINGS).run)
                async with connected(launch.bind, SETTINGS, "agent") as caller:
                    yield caller, replay
                nursery.cancel_scope.cancel()


def asked(seed):
    return Generate(pack_ids([5, 6]), 4, 1.0, seed)


async def test_a_bug_in_serving_one_request_does_not_end_the_engine(tmp_path):
    async with request_queue(tmp_path) as (caller, replay):
        for seed, words in ((1, "ZeroDivisionError"), (3, "in its submission"), (4, "in its coroutine")):
            with pytest.raises(SuspectError, match=words):
                await caller.call(asked(seed))
        with pytest.raises(RefusedError, match="never"):
            await caller.call(asked(2))
        assert isinstance(await caller.call(asked(0)), Generated)
        await gauge(replay, "request_faults", lambda count: count == 3)


async def test_an_engine_that_says_it_is_dead_ends(tmp_path):
    with pytest.raises(ExceptionGroup) as caught:
        async with request_queue(tmp_path) as (caller, _):
            await caller.call(asked(5))
    assert caught.group_contains(BusError, match="processes have died")


def test_the_log_has_the_first_second_and_fourth_traceback_of_a_kind(caplog):
    faults = RequestFaults()

    def fail(error):
        try:
            raise error
        except type(error) as raised:
            return faults.refusal(asked(0), raised)

    with caplog.at_level(logging.ERROR):
        for _ in range(5):
            refused = fail(KeyError("\x1b[2J" + "x" * 10_000))
        assert fail(MemoryError()).unforeseen
        assert not fail(OSError(24, "Too many open files")).unforeseen
    assert faults.total == 7
    assert refused.unforeseen
    assert refused.reason.isprintable()
    assert len(msgspec.msgpack.encode(refused)) < 500
    told = [LineFormatter("engine-0").format(record) for record in caplog.records]
    assert [re.search(r"(\d+) times", message)[1] for message in told] == ["1", "2", "4", "1", "1"]
    assert all("in fail" in message and "\x1b" not in message for message in told)
