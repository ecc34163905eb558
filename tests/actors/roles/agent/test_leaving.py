"""An agent that leaves or retires, and plays that are handed in together."""

import os

import trio
import trio.testing

from actors.environments import runner as env_runner
from actors.roles import agent
from spade import config, protocol
from spade.processes.entry import RETIRE, Launch
from spade.transport import serve
from tests.actors.roles.agent.higher import HIGHER, counting, leases
from tests.actors.small_services import SmallReplay, process, says, service, small_replay
from tests.peers import joined


async def test_an_agent_told_to_leave_gives_everything_back(settings, tokenizer):
    small = SmallReplay(leases(3), programs=[HIGHER])
    async with small_replay(small, settings) as replay, process(env_runner.run, "env-runner", replay, settings):
        asked = []
        async with service("engine", "engine-0", replay, settings, asked.append):
            async with process(agent.run, "agent", replay, settings) as scope:
                await small.until(lambda: len(asked) == 3)
                began = trio.current_time()
                scope.cancel()
            assert trio.current_time() - began < settings.supervise.drain_s / 2
    assert {(type(done), done.id) for done in small.done} == {(protocol.ReleasePlay, f"p{i}") for i in range(3)}


async def test_an_agent_that_retires_finishes_its_plays_and_takes_no_more(settings, tokenizer):
    small = SmallReplay(leases(3), programs=[HIGHER])
    say = says(tokenizer, counting())
    held, go_on = [], trio.Event()

    async def engine(server):
        while True:
            incoming = await server.receive()
            held.append(incoming)
            small.change()
            nursery.start_soon(answer, server, incoming)

    async def answer(server, incoming):
        await go_on.wait()
        await server.reply(incoming, say(incoming.message))

    async with (
        small_replay(small, settings) as replay,
        process(env_runner.run, "env-runner", replay, settings),
        serve("tcp://127.0.0.1:0", digest=config.compute_digest(settings), bus=settings.bus) as server,
        joined(replay.address, settings, "engine", serves=server.address),
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(engine, server)
        ready, left = trio.Event(), trio.Event()

        async def body():
            launch = Launch("agent-0", "agent", config="", run="", replay=replay.address)
            await agent.run(launch, settings, ready.set)
            left.set()

        nursery.start_soon(body)
        await small.until(lambda: len(held) == 3)
        os.kill(os.getpid(), RETIRE)
        small.work.extend(leases(10)[3:])
        go_on.set()
        await left.wait()
        nursery.cancel_scope.cancel()
    # The fourth slot was asking for a play already.
    assert {type(done) for done in small.done} == {protocol.EndedPlay}
    assert {"p0", "p1", "p2"} <= {done.id for done in small.done} <= {"p0", "p1", "p2", "p3"}
    assert len(small.work) >= 6


class SlowReplay(SmallReplay):
    """Takes its time over what is handed in."""

    def __init__(self, *work):
        super().__init__(*work, programs=[HIGHER])
        self.handed_in, self.commit = trio.Event(), trio.Event()

    async def _response(self, request):
        if isinstance(request, protocol.SubmitPlays):
            self.handed_in.set()
            await self.commit.wait()
        return await super()._response(request)


async def test_an_agent_leaves_when_its_plays_are_acknowledged(settings, tokenizer):
    slow, left = SlowReplay(leases(1)), trio.Event()
    async with (
        small_replay(slow, settings) as replay,
        service("engine", "engine-0", replay, settings, says(tokenizer, counting())),
        process(env_runner.run, "env-runner", replay, settings),
        trio.open_nursery() as nursery,
    ):

        async def leaving():
            async with process(agent.run, "agent", replay, settings) as scope:
                await slow.handed_in.wait()
                scope.cancel()
            left.set()

        nursery.start_soon(leaving)
        await slow.handed_in.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert not left.is_set()
        slow.commit.set()
    assert [(type(done), done.episode_return) for done in slow.done] == [(protocol.EndedPlay, 1.0)]


class Commits:
    """A replay service's end that commits when it is told to."""

    def __init__(self):
        self.messages, self.commit = [], trio.Event()

    async def submit_plays(self, plays):
        self.messages.append([play.id for play in plays])
        await self.commit.wait()


async def test_plays_that_end_while_others_are_handed_in_go_together(autojump_clock):
    """The first goes at once; of those that wait for it, no more than a message holds go with the next."""
    commits, acknowledged = Commits(), []
    delivery = agent.PlayDelivery(commits, 3)

    async def end(name):
        await delivery.deliver(protocol.EndedPlay(name, 1, "fault", 0.0, (), 0.5))
        acknowledged.append(name)

    async with trio.open_nursery() as nursery:
        for name in "abcdef":
            nursery.start_soon(end, name)
            await trio.testing.wait_all_tasks_blocked()
        assert (commits.messages, acknowledged) == ([["a"]], [])
        commits.commit.set()
    assert commits.messages == [["a"], ["b", "c", "d"], ["e", "f"]]
    assert sorted(acknowledged) == list("abcdef")
