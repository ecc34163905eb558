"""A real env-runner under its supervisor that is really killed: which requests that is held against, and which not."""

import os
import signal
from contextlib import asynccontextmanager

import pytest
import trio

from actors.links.pool import LostError, open_pool
from spade.errors import SuspectError
from spade.protocol import CloseEpisode, Observed, StepEpisode, Validate, Verdict
from tests import peers
from tests.actors.environments.test_runner import opening, small
from tests.actors.odd_programs import DOOR
from tests.actors.small_services import SmallReplay, small_replay

CONFIG = small(tier="landlock")
SLOW = "import time\ntime.sleep(30)\n" + DOOR


@asynccontextmanager
async def supervised(folder, role):
    """The env-runners as an actor sees them, their supervisor, and what hears of their gauges."""
    async with (
        small_replay(SmallReplay(programs=[DOOR]), CONFIG) as replay,
        peers.supervised(folder, CONFIG, "env-runner", replay=replay.address) as supervisor,
        peers.connected(replay.address, CONFIG, role) as client,
        open_pool("env-runner", client, client.hello, bus=CONFIG.bus) as pool,
    ):
        assert await pool.available(60)
        yield pool, supervisor, replay


async def kill(supervisor, replay, ends):
    """SIGKILL each of so many lives as soon as a child of a program runs in it."""
    killed = set()
    while len(killed) < ends:
        await trio.sleep(0.02)
        (process,) = supervisor.processes()
        for peer, hello in list(replay.peers.items()):
            beat = replay.heartbeats.get(peer)
            if hello.pid == process.pid and process.pid not in killed and beat and beat.gauges.get("spawns"):
                killed.add(process.pid)
                os.kill(process.pid, signal.SIGKILL)


async def test_a_validation_over_which_two_env_runners_died_is_asked_of_no_third(tmp_path):
    async with supervised(tmp_path, "designer") as (pool, supervisor, replay), trio.open_nursery() as nursery:
        nursery.start_soon(kill, supervisor, replay, 2)
        with pytest.raises(SuspectError, match=r"2 times .* Validate"):
            await pool.call(Validate(SLOW, 1), 120)
        (process,) = supervisor.processes()
        assert (process.state, process.restarts) == ("ready", 2)
        assert isinstance(await pool.call(Validate(DOOR, 1), 60), Verdict)


async def test_a_kill_between_two_steps_of_a_play_is_not_held_against_it(tmp_path):
    async with supervised(tmp_path, "agent") as (pool, supervisor, replay):
        with pool.hold() as runner:
            assert isinstance(await runner.call(opening("e", DOOR, 1, 3), 60), Observed)
            await kill(supervisor, replay, 1)
            while runner.answers:  # noqa: ASYNC110 - until we see that it is gone
                await trio.sleep(0.01)
            try:
                lost = await runner.call(StepEpisode("e", 1, "red"), 60)
                assert lost.kind == "lost"
                held_against = lost.environment_fault
            except LostError as error:  # the pool has dropped it before it was back
                held_against = await pool.ended(error, 60)
        assert not held_against
        assert await pool.available(60)
        with pool.hold() as runner:
            assert isinstance(await runner.call(opening("e", DOOR, 1, 3), 60), Observed)
            await runner.call(CloseEpisode("e"), 60)
