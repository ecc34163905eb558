from collections import Counter
from contextlib import ExitStack, asynccontextmanager, contextmanager

import pytest
import trio

from actors.links.pool import LostError, open_pool, rank
from spade import config
from spade.errors import SuspectError
from spade.protocol import Done, Generate, Overdue, Peer, Refused
from tests.actors.small_services import SmallReplay, service, small_replay
from tests.peers import connected

SETTINGS = config.load("nano", ("bus.heartbeat_s=0.05", "bus.silence_s=2.0"))
ASKED, ANSWER = Generate(b"", 1, 1.0, 0), Overdue(0.0, 0.0)


@asynccontextmanager
async def pooled(small=None, settings=SETTINGS):
    """A replay service, an agent's connection to it, and the agent's pool of engines."""
    async with (
        small_replay(small or SmallReplay(), settings) as replay,
        connected(replay.address, settings, "agent") as client,
        open_pool("engine", client, client.hello, bus=settings.bus) as pool,
    ):
        yield replay, client, pool


async def engines_connected(pool, client, count):
    while sum(each.connected for each in pool._services.values()) < count:
        await client.wait_pulse()


async def test_a_pool_connects_drops_and_fails_what_is_lost():
    async with pooled() as (replay, _, pool):
        with pytest.raises(LostError), pool.hold():
            pass
        with pytest.raises(LostError, match=r"no live engine within 0\.1 s"):
            await pool.call(ASKED, 0.1)
        assert not await pool.available(0.1)
        lost = []

        async def unanswered():
            with pytest.raises(LostError, match="engine-0 is gone"), pool.hold() as held:
                await held.call(ASKED, 60)
            lost.append(trio.current_time())

        async with trio.open_nursery() as nursery:
            heard = trio.Event()
            async with service("engine", "engine-0", replay, SETTINGS, lambda _: heard.set()):
                async with service("env-runner", "runner-0", replay, SETTINGS, lambda _: Done()):
                    assert await pool.available(60)
                nursery.start_soon(unanswered)
                await heard.wait()
                left = trio.current_time()
        # At the next pulse, long before the call's deadline of a minute.
        assert lost[0] - left < 30
        assert not await pool.available(0.1)


async def test_a_replay_service_that_restarts_costs_no_call_to_a_service_that_answers():
    """Until that has said hello again, no pulse names it."""
    small, lost = SmallReplay(), trio.Event()
    async with pooled(small) as (replay, client, pool), trio.open_nursery() as nursery:
        heard = trio.Event()

        async def unanswered():
            with pytest.raises(LostError, match="engine-0 is gone"), pool.hold() as held:
                await held.call(ASKED, 60)
            lost.set()

        async def pulses(met):
            while not met(await client.wait_pulse()):
                pass

        async with service("engine", "engine-0", replay, SETTINGS, lambda _: heard.set()):
            assert await pool.available(60)
            nursery.start_soon(unanswered)
            await heard.wait()
            small.forgetful = True
            for _ in range(3):
                await pulses(lambda pulse: not pulse.peers)
            assert not lost.is_set()
            async with service("engine", "engine-1", replay, SETTINGS, lambda _: ANSWER):
                small.peers = tuple(
                    Peer(hello.role, hello.name, hello.address)
                    for hello in replay.peers.values()
                    if hello.name == "engine-1"
                )
                await pulses(lambda _: sum(each.connected for each in pool._services.values()) == 2)
                with pool.hold() as one, pool.hold() as other:
                    assert {one.peer.name, other.peer.name} == {"engine-1"}, "what is named is asked first"
                small.peers = ()
            small.forgetful = False
            await pulses(lambda pulse: pulse.peers)
            assert not lost.is_set()
            # One that answers us but is not named for as long as a silence may last is not of this run any more.
            small.forgetful = True
            await lost.wait()


async def test_the_service_with_the_least_to_do_is_asked():
    asked = {"engine-0": 0, "engine-1": 0}

    def count(name):
        def answer(_):
            asked[name] += 1
            return ANSWER

        return answer

    async with (
        pooled() as (replay, client, pool),
        service("engine", "engine-0", replay, SETTINGS, count("engine-0")),
        service("engine", "engine-1", replay, SETTINGS, count("engine-1")),
    ):
        await engines_connected(pool, client, 2)
        with pool.hold() as first, pool.hold() as second, pool.hold():
            assert first is not second
        with pool.hold() as held:
            for _ in range(5):
                await pool.call(ASKED, 60)
            assert asked[held.peer.name] == 0
        assert sum(asked.values()) == 5
        # What is near goes to the same one, which is the next's too, until it has a quarter more than its share.
        for near in ("e000001", "e000002"):
            with pool.hold(near) as one, pool.hold(near) as other, pool.hold(near) as third:
                assert one is other is not third
        with ExitStack() as stack:
            held = [stack.enter_context(pool.hold("e000001")) for _ in range(16)]
            assert max(service.users for service in held) == 10


def test_nearness_is_spread_over_the_services_and_moves_with_none_but_its_own():
    names = [f"engine-{index}" for index in range(4)]
    nearest = {near: min(names, key=lambda name: rank(name, near)) for near in map(str, range(400))}
    assert all(70 <= count <= 130 for count in Counter(nearest.values()).values())
    rest = names[1:]
    assert all(min(rest, key=lambda name: rank(name, near)) == one for near, one in nearest.items() if one in rest)


async def test_a_service_that_cannot_be_reached_is_tried_again_and_hurts_nobody():
    small = SmallReplay()
    small.peers = (Peer("engine", "engine-9", "tcp://127.0.0.1:9"), Peer("engine", "engine-8", "no address"))
    async with (
        pooled(small) as (replay, client, pool),
        service("engine", "engine-0", replay, SETTINGS, lambda _: ANSWER),
    ):
        assert await pool.available(60)
        for _ in range(3):
            await client.wait_pulse()
            assert await pool.call(ASKED, 60) == ANSWER


class KilledError(Exception):
    """As SIGKILL would, it lets a service say nothing as it ends."""


async def lives(server, name, how, answer, count):
    """The service `name` in so many lives, each ended after its first request; then in one more, which answers."""
    for _ in range(count):
        asked = trio.Event()
        with suppress_group(KilledError):
            async with service("engine", name, server, SETTINGS, lambda _, asked=asked: answer() or asked.set()):
                await asked.wait()
                if how == "killed":
                    raise KilledError
    async with service("engine", name, server, SETTINGS, lambda _: ANSWER):
        await trio.sleep_forever()


@contextmanager
def suppress_group(kind):
    try:
        yield
    except* kind:
        pass


@asynccontextmanager
async def pool_of(*names, how, count, heard):
    """A pool over services that end over each request, so many times each."""
    async with pooled() as (replay, client, pool), trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(lives, replay, name, how, lambda name=name: heard.append(name), count)
        await engines_connected(pool, client, len(names))
        yield pool
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("names", [["engine-0"], ["engine-0", "engine-1", "engine-2"]])
async def test_a_request_over_which_two_services_ended_is_sent_to_no_third(names):
    heard = []
    async with pool_of(*names, how="killed", count=3, heard=heard) as pool:
        with pytest.raises(SuspectError, match=r"2 times .* Generate"):
            await pool.call(ASKED, 50)
    assert len(heard) == 2


@pytest.mark.parametrize(("how", "lives"), [("killed", 1), ("leaves", 3)])
async def test_a_request_over_which_one_service_ended_or_more_left_in_order_is_answered_by_the_next(how, lives):
    heard = []
    async with pool_of("engine-0", how=how, count=lives, heard=heard) as pool:
        assert await pool.call(ASKED, 50) == ANSWER
    assert len(heard) == lives


async def test_a_request_that_two_services_could_not_foresee_is_asked_of_no_third():
    heard = []

    def unforeseen(request):
        heard.append(request)
        return Refused("Generate ended in an unforeseen KeyError: 'x'", unforeseen=True)

    async with pooled() as (replay, _, pool), service("engine", "engine-0", replay, SETTINGS, unforeseen):
        with pytest.raises(SuspectError, match="unforeseen KeyError"):
            await pool.call(ASKED, 50)
    assert len(heard) == 2
