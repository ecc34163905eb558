"""The env-runner's contract over real sockets: a bus server in the replay service's place hears its heartbeats."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from actors.environments import runner as env_runner
from spade.config import Config, load
from spade.errors import RefusedError
from spade.protocol import CloseEpisode, Done, Faulted, LeasePlays, Observed, OpenEpisode, Role, StepEpisode, Validate
from spade.transport import Client, Server
from tests.actors.small_services import SmallReplay, process, small_replay
from tests.peers import changed, connected

COUNTER = """
class CounterEnv:
    def __init__(self, max_turns: int = 6):
        self.max_turns = max_turns

    def reset(self, seed):
        self.goal = seed % 7 + 3
        self.total = self.turn = 0
        return "Reach the goal exactly. Actions: 1..6", {}

    def step(self, action):
        self.turn += 1
        over = self.turn >= self.max_turns
        if action not in ("1", "2", "3", "4", "5", "6"):
            return "What? Actions: 1..6", 0.0, over, False, {}
        self.total += int(action)
        if self.total == self.goal:
            return "Reached.", 1.0, True, False, {}
        return f"At {self.total} of {self.goal}. Actions: 1..6", 0.1, over or self.total > self.goal, False, {}

    def solution(self):
        return ["1"] * (self.goal % 3) + ["3"] * (self.goal // 3)
"""
ENDLESS = COUNTER.replace("self.turn += 1", "while True: pass")


def small(**sandbox: float) -> Config:
    limits = {"episodes": 8, "load_s": 60.0, "step_s": 60.0, **sandbox}
    return changed(load("nano"), sandbox=limits, bus={"heartbeat_s": 0.05, "silence_s": 5.0})


@asynccontextmanager
async def running(config: Config) -> AsyncIterator[tuple[str, Server]]:
    """An env-runner in its own task, and the server it reports to."""
    async with small_replay(SmallReplay(), config) as replay, process(env_runner.run, "env-runner", replay, config):
        (greeting,) = replay.peers.values()
        assert greeting.role == "env-runner"
        yield greeting.address, replay


@asynccontextmanager
async def service(config: Config, role: Role = "agent") -> AsyncIterator[tuple[Client, Server]]:
    async with running(config) as (address, replay), connected(address, config, role) as client:
        yield client, replay


async def gauge(replay: Server, name: str, holds: Callable[[float], bool]) -> None:
    """Wait for a heartbeat of which it holds."""
    while not any(holds(beat.gauges.get(name, -1.0)) for beat in replay.heartbeats.values()):  # noqa: ASYNC110
        await trio.sleep(0.01)


async def test_an_episode_over_the_bus_and_every_request_twice():
    async with service(small()) as (client, replay):
        opening = OpenEpisode("p#1", COUNTER, 2, 8)  # the goal is 5
        for _ in range(2):
            assert await client.call(opening) == Observed("Reach the goal exactly. Actions: 1..6")
        for _ in range(2):
            assert await client.call(StepEpisode("p#1", 1, "3")) == Observed("At 3 of 5. Actions: 1..6", 0.1)
        assert await client.call(opening) == Observed("Reach the goal exactly. Actions: 1..6")
        for _ in range(2):
            assert await client.call(StepEpisode("p#1", 2, "2")) == Observed("Reached.", 1.0, terminated=True)
        for _ in range(2):
            assert await client.call(CloseEpisode("p#1")) == Done()
        lost = await client.call(StepEpisode("p#1", 3, "2"))
        assert lost.kind == "lost"
        await gauge(replay, "steps", lambda steps: steps == 2)
        await gauge(replay, "live_episodes", lambda live: live == 0)


async def test_admission_over_the_bus():
    async with service(small(), "designer") as (client, replay):
        verdict = await client.call(Validate(COUNTER, 2))
        assert (verdict.passed, verdict.name, verdict.seed_sensitive) == (True, "CounterEnv", True), verdict
        verdict = await client.call(Validate(COUNTER.replace('["1"] * (self.goal % 3) + ', ""), 2))
        assert verdict.stages[-1].name == "solution"
        await gauge(replay, "validations", lambda count: count == 2)
        await gauge(replay, "admitted", lambda count: count == 1)


async def test_a_hanging_program_holds_up_nobody():
    async with service(small()) as (client, _):
        ended: list[object] = []

        async def hang() -> None:
            ended.append(await client.call(StepEpisode("bad", 1, "1"), 120))

        await client.call(OpenEpisode("bad", ENDLESS, 1, 8))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hang)
            for index in range(5):
                assert isinstance(await client.call(OpenEpisode(f"good-{index}", COUNTER, 4, 8)), Observed)
                assert isinstance(await client.call(StepEpisode(f"good-{index}", 1, "1")), Observed)
            assert ended == []
            await client.call(CloseEpisode("bad"))
        assert ended == [Faulted("infrastructure", "the episode was closed")]


async def test_a_hanging_program_times_out():
    async with service(small(step_s=1.0)) as (client, _):
        await client.call(OpenEpisode("bad", ENDLESS, 1, 8))
        assert await client.call(StepEpisode("bad", 1, "1")) == Faulted("timeout", "no answer within 1 s")


async def test_a_full_runner_refuses_and_a_closed_episode_makes_room():
    config = small(episodes=2)
    async with (
        running(config) as (address, _),
        connected(address, config, "agent") as client,
        connected(address, config, "designer") as designer,
    ):
        for name in ("a", "b"):
            assert isinstance(await client.call(OpenEpisode(name, COUNTER, 1, 8)), Observed)
        for peer, request in ((client, OpenEpisode("c", COUNTER, 1, 8)), (designer, Validate(COUNTER, 1))):
            with pytest.raises(RefusedError, match=r"overloaded: sandbox\.episodes = 2"):
                await peer.call(request)
        await client.call(CloseEpisode("a"))
        assert isinstance(await client.call(OpenEpisode("c", COUNTER, 1, 8)), Observed)


async def test_episodes_of_a_peer_that_left_are_freed_and_no_others():
    config = small()
    async with running(config) as (address, replay), connected(address, config, "agent", "agent-1") as staying:
        await staying.call(OpenEpisode("kept", COUNTER, 1, 8))
        async with connected(address, config, "agent", "agent-2") as leaving:
            await leaving.call(OpenEpisode("orphan", COUNTER, 1, 8))
            await gauge(replay, "live_episodes", lambda live: live == 2)
        await gauge(replay, "live_episodes", lambda live: live == 1)
        assert isinstance(await staying.call(StepEpisode("kept", 1, "1")), Observed)


async def test_nobody_steps_or_closes_the_episode_of_another():
    config = small()
    async with (
        running(config) as (address, _),
        connected(address, config, "agent", "agent-1") as owner,
        connected(address, config, "agent", "agent-2") as other,
    ):
        await owner.call(OpenEpisode("p#1", COUNTER, 2, 8))  # the goal is 5
        lost = await other.call(StepEpisode("p#1", 1, "3"))
        assert lost.kind == "lost"
        assert await other.call(CloseEpisode("p#1")) == Done()
        assert await owner.call(StepEpisode("p#1", 1, "3")) == Observed("At 3 of 5. Actions: 1..6", 0.1)


async def test_a_forgotten_episode_is_freed_when_its_lease_is_over():
    async with service(changed(small(), play={"lease_s": 0.5})) as (client, replay):
        await client.call(OpenEpisode("forgotten", COUNTER, 1, 8))
        await gauge(replay, "spawns", lambda spawns: spawns == 1)  # told since it began
        await gauge(replay, "live_episodes", lambda live: live == 0)
        assert (await client.call(StepEpisode("forgotten", 1, "1"))).kind == "lost"


async def test_other_requests_are_refused():
    async with service(small()) as (client, _):
        with pytest.raises(RefusedError, match="an env-runner does not serve LeasePlays"):
            await client.call(LeasePlays(1, 0.0))
