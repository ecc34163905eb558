"""Plays that are given back: nobody loses them."""

import itertools

import trio
import trio.testing

from actors.environments import runner as env_runner
from actors.roles import agent
from spade import protocol
from tests.actors.roles.agent.higher import HIGHER, counting, leases, playing
from tests.actors.small_services import SmallReplay, process, says, service, small_replay
from tests.peers import changed


async def test_a_retired_environment_gives_the_play_back(settings, tokenizer, given_back):
    small = SmallReplay(leases(1))
    async with playing(small, settings, tokenizer, counting()):
        await small.until_done(1)
    assert small.done[0].id == "p0"
    assert isinstance(small.done[0], protocol.ReleasePlay)
    assert "unknown: " in given_back()[0]
    assert "no active environment has the program" in given_back()[0]


async def test_an_engine_that_dies_costs_no_play(settings, tokenizer):
    small = SmallReplay(leases(2), programs=[HIGHER])
    async with (
        small_replay(small, settings) as replay,
        process(env_runner.run, "env-runner", replay, settings),
        process(agent.run, "agent", replay, settings),
    ):
        asked = trio.Event()
        async with service("engine", "engine-0", replay, settings, lambda _: asked.set()):
            await asked.wait()
        async with service("engine", "engine-1", replay, settings, says(tokenizer, counting())):
            await small.until_done(2)
    assert {(play.id, play.lease, play.episode_return) for play in small.done} == {("p0", 0, 1.0), ("p1", 0, 1.0)}


async def test_without_an_engine_the_play_is_given_back(settings, tokenizer, given_back):
    small = SmallReplay(leases(1), programs=[HIGHER])
    hasty = changed(settings, engine={"request_deadline_s": 0.2}, bus={"call_deadline_s": 2.0})
    async with (
        small_replay(small, settings) as replay,
        process(env_runner.run, "env-runner", replay, settings),
        service("engine", "engine-0", replay, settings, lambda _: None),
        process(agent.run, "agent", replay, hasty),
    ):
        await small.until_done(1)
    assert isinstance(small.done[0], protocol.ReleasePlay)
    assert "no answer to Generate" in given_back()[0]


async def test_a_fault_of_the_infrastructure_gives_the_play_back(settings, tokenizer, given_back):
    """The env-runner loses the episode once; then the same play is played to its end."""
    small = SmallReplay(leases(1), programs=[HIGHER])
    lost = itertools.chain(
        [protocol.Faulted("lost", "restarted")], itertools.repeat(protocol.Observed("Found.", 1.0, terminated=True))
    )
    opened, closed = [], []

    def forgetful(request):
        match request:
            case protocol.OpenEpisode(episode=episode):
                opened.append(episode)
                return protocol.Observed("Find it.")
            case protocol.CloseEpisode(episode=episode):
                closed.append(episode)
                return protocol.Done()
        return next(lost)

    async with playing(small, settings, tokenizer, counting(), forgetful):
        await small.until_done(2)
    released, played = small.done
    assert (type(released), released.id, released.lease) == (protocol.ReleasePlay, "p0", 0)
    assert given_back() == ["play p0 given back: runner-0: lost: restarted"]
    assert (played.lease, played.episode_return) == (1, 1.0)
    assert opened == closed
    assert len(set(opened)) == 2


async def test_a_play_over_which_a_service_ended_is_given_back_as_suspect(settings, tokenizer, given_back):
    """It is told apart from one whose env-runner was killed between two of its requests."""
    small = SmallReplay(leases(1), programs=[HIGHER])
    answers = itertools.chain(
        [
            protocol.Refused("OpenEpisode ended in an unforeseen KeyError: 'x'", unforeseen=True),
            protocol.Observed("Find it."),
        ],
        [protocol.Faulted("lost", "restarted"), protocol.Observed("Find it.")],
        itertools.repeat(protocol.Observed("Found.", 1.0, terminated=True)),
    )

    def answer(request):
        return protocol.Done() if isinstance(request, protocol.CloseEpisode) else next(answers)

    async with playing(small, settings, tokenizer, counting(), answer):
        await small.until_done(3)
    first, second, played = small.done
    assert [(one.id, one.lease, one.suspect) for one in (first, second)] == [("p0", 0, True), ("p0", 1, False)]
    assert "unforeseen" in given_back()[0]
    assert played.episode_return == 1.0


async def test_a_play_that_is_ended_for_memory_is_void_and_not_played_again(settings, tokenizer, given_back):
    """A program could fill the memory in its lost plays. If they were played again, it would lose fewer of them."""
    small = SmallReplay(leases(1), programs=[HIGHER])
    evicted = protocol.Faulted("infrastructure", "all programs are over 4096 MiB together", evicted=True)
    answers = {protocol.OpenEpisode: protocol.Observed("Find it."), protocol.StepEpisode: evicted}

    def full(request):
        return answers.get(type(request), protocol.Done())

    async with playing(small, settings, tokenizer, counting(), full):
        await small.until_done(1)
    (ended,) = small.done
    assert (type(ended), ended.id, ended.outcome, ended.trajectory) == (protocol.EndedPlay, "p0", "fault", None)
    assert ended.fault.endswith("infrastructure: all programs are over 4096 MiB together")
    assert given_back() == []
