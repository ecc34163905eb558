"""The env-runner's contract over real sockets: a bus server in the replay service's place hears its heartbeats."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio

from actors.environments import runner as env_runner
from actors.sandbox import Programs
from spade.codec import compute_program_digest
from spade.config import Config, compute_digest, load
from spade.errors import RefusedError
from spade.processes.entry import Launch
from spade.protocol import (
    CloseEpisode,
    Done,
    Faulted,
    GetProgram,
    KeepProgram,
    LeasePlays,
    Needs,
    Observed,
    OpenEpisode,
    Program,
    Role,
    StepEpisode,
    ToolCall,
    Validate,
)
from spade.transport import Client, IncomingRequest, Server, serve
from tests.actors.small_services import SmallReplay, process, small_replay
from tests.actors.tool_programs import TICKETS
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


def opening(episode: str, source: str, seed: int = 1, max_turns: int = 8) -> OpenEpisode:
    return OpenEpisode(episode, compute_program_digest(source), seed, max_turns)


@asynccontextmanager
async def running(config: Config, small: SmallReplay | None = None) -> AsyncIterator[tuple[str, Server]]:
    """An env-runner in its own task, and the server it reports to and has programs of."""
    small = small or SmallReplay(programs=[COUNTER, ENDLESS])
    async with small_replay(small, config) as replay, process(env_runner.run, "env-runner", replay, config):
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
        first = opening("p#1", COUNTER, 2)  # the goal is 5
        for _ in range(2):
            assert await client.call(first) == Observed("Reach the goal exactly. Actions: 1..6")
        for _ in range(2):
            assert await client.call(StepEpisode("p#1", 1, "3")) == Observed("At 3 of 5. Actions: 1..6", 0.1)
        assert await client.call(first) == Observed("Reach the goal exactly. Actions: 1..6")
        for _ in range(2):
            assert await client.call(StepEpisode("p#1", 2, "2")) == Observed("Reached.", 1.0, terminated=True)
        for _ in range(2):
            assert await client.call(CloseEpisode("p#1")) == Done()
        lost = await client.call(StepEpisode("p#1", 3, "2"))
        assert lost.kind == "lost"
        await gauge(replay, "steps", lambda steps: steps == 2)
        await gauge(replay, "live_episodes", lambda live: live == 0)


async def test_calls_of_tools_over_the_bus_and_every_request_twice():
    config, find = small(), ToolCall("find", '{"status": "open", "urgent": true}')
    async with (
        running(config, SmallReplay(programs=[TICKETS])) as (address, _),
        connected(address, config, "agent") as client,
    ):
        for _ in range(2):
            first = await client.call(opening("t#1", TICKETS))
            assert [tool["function"]["name"] for tool in json.loads(first.tools)] == ["find", "view", "close", "delete"]
        for _ in range(2):
            seen = await client.call(StepEpisode("t#1", 1, "done", (find, ToolCall("fly"))))
            [found, refused] = seen.results
            [number] = json.loads(found.text)
            assert (found.refused, refused.refused) == (False, True)
            assert (seen.terminated, seen.done, seen.instructions, seen.tools) == (False, 0, 2, "")
        view = ToolCall("view", json.dumps({"number": number}))
        close = ToolCall("close", json.dumps({"number": number, "note": "solved"}))
        assert (await client.call(StepEpisode("t#1", 2, "done", (view, close)))).terminated


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

        await client.call(opening("bad", ENDLESS))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hang)
            for index in range(5):
                assert isinstance(await client.call(opening(f"good-{index}", COUNTER, 4)), Observed)
                assert isinstance(await client.call(StepEpisode(f"good-{index}", 1, "1")), Observed)
            assert ended == []
            await client.call(CloseEpisode("bad"))
        assert ended == [Faulted("infrastructure", "the episode was closed")]


async def test_a_hanging_program_times_out():
    async with service(small(step_s=1.0)) as (client, _):
        await client.call(opening("bad", ENDLESS))
        ended = await client.call(StepEpisode("bad", 1, "1"))
        assert ended == Faulted("timeout", "no answer within 1 s of processor time")


async def test_a_program_that_sleeps_ends_its_play_before_the_lease_does():
    asleep = COUNTER.replace("class", "import time\nclass").replace("self.turn += 1", "time.sleep(600)")
    config = changed(small(), play={"lease_s": 4.0})
    replay = SmallReplay(programs=[asleep])
    async with running(config, replay) as (address, _), connected(address, config, "agent") as client:
        await client.call(opening("asleep", asleep))
        with trio.fail_after(config.play.lease_s):
            ended = await client.call(StepEpisode("asleep", 1, "1"))
        assert ended.environment_fault


async def test_an_item_of_a_suite_may_take_as_long_as_the_step_that_it_needs(monkeypatch):
    """An evaluator waits for it longer than a lease of the run."""
    monkeypatch.setattr("spade.config.sections.actors.PROGRAM_SHARE", 0.0)
    async with service(small()) as (client, _):
        item = msgspec.structs.replace(opening("item", COUNTER), needs=Needs(step_s=60.0))
        assert isinstance(await client.call(item), Observed)
        assert (await client.call(opening("own", COUNTER))).kind == "timeout"


async def test_a_full_runner_refuses_and_a_closed_episode_makes_room():
    config = small(episodes=2)
    async with (
        running(config) as (address, _),
        connected(address, config, "agent") as client,
        connected(address, config, "designer") as designer,
    ):
        for name in ("a", "b"):
            assert isinstance(await client.call(opening(name, COUNTER)), Observed)
        for peer, request in ((client, opening("c", COUNTER)), (designer, Validate(COUNTER, 1))):
            with pytest.raises(RefusedError, match=r"overloaded: sandbox\.episodes = 2"):
                await peer.call(request)
        await client.call(CloseEpisode("a"))
        assert isinstance(await client.call(opening("c", COUNTER)), Observed)


async def test_episodes_of_a_peer_that_left_are_freed_and_no_others():
    config = small()
    async with running(config) as (address, replay), connected(address, config, "agent", "agent-1") as staying:
        await staying.call(opening("kept", COUNTER))
        async with connected(address, config, "agent", "agent-2") as leaving:
            await leaving.call(opening("orphan", COUNTER))
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
        await owner.call(opening("p#1", COUNTER, 2))  # the goal is 5
        lost = await other.call(StepEpisode("p#1", 1, "3"))
        assert lost.kind == "lost"
        assert await other.call(CloseEpisode("p#1")) == Done()
        assert await owner.call(StepEpisode("p#1", 1, "3")) == Observed("At 3 of 5. Actions: 1..6", 0.1)


async def test_a_forgotten_episode_is_freed_when_its_lease_is_over():
    async with service(changed(small(), play={"lease_s": 0.5})) as (client, replay):
        await client.call(opening("forgotten", COUNTER))
        await gauge(replay, "spawns", lambda spawns: spawns == 1)  # told since it began
        await gauge(replay, "live_episodes", lambda live: live == 0)
        assert (await client.call(StepEpisode("forgotten", 1, "1"))).kind == "lost"


async def test_other_requests_are_refused():
    async with service(small()) as (client, _):
        with pytest.raises(RefusedError, match="does not serve LeasePlays"):
            await client.call(LeasePlays(1, 0.0))


async def test_a_program_is_fetched_once_for_all_that_play_it():
    config, replays = small(), SmallReplay(programs=[COUNTER])
    async with (
        running(config, replays) as (address, replay),
        connected(address, config, "agent", "agent-1") as one,
        connected(address, config, "agent", "agent-2") as other,
    ):
        async with trio.open_nursery() as nursery:
            for client in (one, other):
                for name in ("a", "b"):
                    nursery.start_soon(client.call, opening(name, COUNTER))
        assert isinstance(await one.call(opening("c", COUNTER)), Observed)
        await gauge(replay, "program_fetches", lambda count: count == 1)
    assert replays.fetched == [compute_program_digest(COUNTER)]


async def test_an_episode_goes_on_though_its_program_was_dropped(monkeypatch):
    monkeypatch.setattr(env_runner, "Programs", partial(Programs, most=1))
    config, replays = small(), SmallReplay(programs=[COUNTER, ENDLESS])
    async with running(config, replays) as (address, _), connected(address, config, "agent") as client:
        for turn, (name, source) in enumerate((("a", COUNTER), ("b", ENDLESS), ("c", COUNTER)), 1):
            assert isinstance(await client.call(opening(name, source, seed=2)), Observed)  # the goal is 5
            assert (await client.call(StepEpisode("a", turn, "1"))).reward == 0.1
    assert replays.fetched == [compute_program_digest(source) for source in (COUNTER, ENDLESS, COUNTER)]


async def test_an_env_runner_that_restarted_fetches_anew():
    config, replays = small(), SmallReplay(programs=[COUNTER])
    for _ in range(2):
        async with running(config, replays) as (address, _), connected(address, config, "agent") as client:
            assert isinstance(await client.call(opening("a", COUNTER)), Observed)
    assert replays.fetched == 2 * [compute_program_digest(COUNTER)]


async def test_a_program_that_was_admitted_here_is_not_fetched():
    config, replays = small(), SmallReplay()
    async with (
        running(config, replays) as (address, _),
        connected(address, config, "designer") as designer,
        connected(address, config, "agent") as client,
    ):
        assert (await designer.call(Validate(COUNTER, 2))).passed
        assert isinstance(await client.call(opening("a", COUNTER)), Observed)
    assert replays.fetched == []


async def test_a_program_that_nobody_has_is_unknown_until_its_owner_hands_it_in():
    async with service(small(), "evaluator") as (client, replay):
        mine = COUNTER.replace("Reach", "Get to")
        unknown = await client.call(opening("a", mine))
        assert (unknown.kind, unknown.environment_fault) == ("unknown", False)
        assert unknown.detail.endswith(f"no active environment has the program {compute_program_digest(mine)!r}")
        assert await client.call(KeepProgram(mine)) == Done()
        assert await client.call(opening("a", mine)) == Observed("Get to the goal exactly. Actions: 1..6")
        await gauge(replay, "faults", lambda count: count == 0)


class ByHand:
    """An env-runner whose replay service is the test itself, and one opening of an agent's."""

    def __init__(self, folder: Path) -> None:
        self.config = small()
        self.launch = Launch("runner-0", "env-runner", "", "", f"ipc://{folder}/replay", f"ipc://{folder}/runner")
        self.replay = partial(serve, self.launch.replay, digest=compute_digest(self.config), bus=self.config.bus)
        self.client: Client | None = None
        self.answer: object = None
        self.over = trio.Event()

    async def run_env_runner(self, task_status: trio.TaskStatus[None]) -> None:
        await env_runner.run(self.launch, self.config, task_status.started)

    async def open(self) -> None:
        async with connected(self.launch.bind, self.config, "agent") as self.client:
            self.answer = await self.client.call(opening("a", COUNTER))
            self.over.set()

    @staticmethod
    async def asked(replay: Server) -> IncomingRequest:
        while not isinstance((incoming := await replay.receive()).message, GetProgram):
            pass
        return incoming


@pytest.mark.parametrize(("closed", "sent", "kind", "says"), [
    (False, ENDLESS, "infrastructure",
     f"the fetched program does not have the digest {compute_program_digest(COUNTER)!r}"),
    (True, COUNTER, "lost", "the episode was closed while its program was fetched"),
], ids=["another than the one that was named", "of an episode that was closed meanwhile"])  # fmt: skip
async def test_a_fetched_program_is_not_played(tmp_path, closed, sent, kind, says):
    hand = ByHand(tmp_path)
    async with trio.open_nursery() as nursery, hand.replay() as replay:
        await nursery.start(hand.run_env_runner)
        nursery.start_soon(hand.open)
        incoming = await hand.asked(replay)
        if closed:
            await hand.client.call(CloseEpisode("a"))
        await replay.reply(incoming, Program(sent))
        await hand.over.wait()
        await gauge(replay, "program_fetches", lambda count: count == 1)
        await gauge(replay, "spawns", lambda count: count == 0)
        nursery.cancel_scope.cancel()
    assert hand.answer == Faulted(kind, says)
    assert not hand.answer.environment_fault


async def test_a_replay_service_that_restarts_while_a_program_is_fetched_costs_no_play(tmp_path):
    hand = ByHand(tmp_path)
    async with trio.open_nursery() as nursery:
        async with hand.replay() as replay:
            await nursery.start(hand.run_env_runner)
            nursery.start_soon(hand.open)
            await hand.asked(replay)
        async with hand.replay() as replay:
            await replay.reply(await hand.asked(replay), Program(COUNTER))
            await hand.over.wait()
            nursery.cancel_scope.cancel()
    assert isinstance(hand.answer, Observed)
