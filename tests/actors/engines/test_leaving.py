"""Two engines share what is asked, and where one leaves in the middle of it the other takes over."""

import pytest
import trio
import trio.testing

from actors.engines import server as engine_server
from actors.links.pool import Pool
from actors.play.session import OverdueError, Session
from spade import config
from spade.codec import pack_ids
from spade.policy.model import compute_parameters_digest
from spade.protocol import Generate, Generated, Overdue, Weights
from tests.actors.engines.gate import gated
from tests.actors.links.test_pool import engines_connected, pooled
from tests.actors.small_services import SmallReplay, process, service

SETTINGS = config.load("nano", ("bus.heartbeat_s=0.1", "engine.rows=4"))
DEADLINE_S = 120  # of what takes seconds on an idle machine
# Seeds of which no draw falls so near to a token's edge that the rounding of a forward, which depends on who else is
# in it, could decide: none within 2.8e-5, where the rounding moves an edge by 4e-7.
ASKED = [Generate(pack_ids([9, 8, 3 + index]), 16, 1.0, 496 + index) for index in range(16)]


async def all_of(pool: Pool) -> dict[int, Generated]:
    """The answers, by seed."""
    answers = {}

    async def ask(request):
        answers[request.seed] = await pool.call(request, DEADLINE_S)

    async with trio.open_nursery() as nursery:
        for request in ASKED:
            nursery.start_soon(ask, request)
    return answers


async def test_an_engine_may_leave_in_the_middle_and_nothing_is_lost(tiny_checkpoint, monkeypatch):
    small = SmallReplay()
    small.weights = Weights(1, 0, compute_parameters_digest(tiny_checkpoint), str(tiny_checkpoint))
    async with (
        pooled(small, SETTINGS) as (replay, client, pool),
        process(engine_server.run, "engine", replay, SETTINGS, 1),
    ):
        assert await pool.available(DEADLINE_S)
        expected = await all_of(pool)
        steps = gated(monkeypatch)
        async with trio.open_nursery() as nursery:
            leave = await nursery.start(another, replay)
            await engines_connected(pool, client, 2)
            nursery.start_soon(leaves_in_the_middle, leave, steps, pool, replay, client)
            found = await all_of(pool)
            assert leave.cancel_called, "it left before all was answered"
    assert {seed: answer.ids for seed, answer in found.items()} == {s: answer.ids for s, answer in expected.items()}


async def another(replay, task_status):
    """An engine that may be cancelled."""
    async with process(engine_server.run, "engine", replay, SETTINGS, 0) as scope:
        task_status.started(scope)
        await trio.sleep_forever()


async def leaves_in_the_middle(leave, steps, pool, replay, client):
    """Cancel the engine once it has half of what is asked and says that it is sampling."""
    (name,) = [peer for peer, hello in replay.peers.items() if hello.name == "engine-0"]
    (busy,) = [service for service in pool._services.values() if service.peer.name == "engine-0"]
    while busy.users < len(ASKED) // 2:
        await client.wait_pulse()
    steps.release(4)
    while not replay.heartbeats[name].gauges.get("rows_active", 0):
        await client.wait_pulse()
    leave.cancel()
    await trio.testing.wait_all_tasks_blocked()
    steps.release()  # it finishes the step that it is at


async def test_a_request_that_no_engine_sampled_in_time_is_an_error_of_its_own():
    async with (
        pooled(settings=SETTINGS) as (replay, _, engines),
        service("engine", "engine-0", replay, SETTINGS, lambda _: Overdue(50.0, 10.25)),
    ):
        session = Session(SETTINGS, None, {"engine": engines}, None, trio.Event(), "engine", None, None, None)
        with pytest.raises(OverdueError, match=r"= 60 s: 50\.0 s in its queue, 10\.2 s sampling"):
            await session.generate(pack_ids([3]), 5, 1.0, 1)
