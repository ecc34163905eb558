"""Two lives of one name: once the newer one has greeted, nothing that the older one asks takes effect."""

from contextlib import asynccontextmanager

import msgspec
import pytest
import trio

from replay.ledger.state import RunState
from replay.service.lives import MOST, Lives
from replay.store import open_reader, open_store
from replay.store.load import KnownLives
from spade import protocol
from spade.errors import RefusedError
from spade.protocol import LifeNumber
from spade.transport import connect
from tests import peers
from tests.peers import hello
from tests.replay.feeding import design, play, publish
from tests.replay.replay_world import ended
from tests.replay.service.running import SETTINGS, address, joined, serving

OLD, NEW, NEWER_SUPERVISOR = LifeNumber(1, 1), LifeNumber(1, 2), LifeNumber(2, 1)


@asynccontextmanager
async def alive(run, role, life):
    """A process of a role as this life of its name."""
    greeting = msgspec.structs.replace(hello(SETTINGS, role, f"{role}-x"), life=life)
    async with connect(address(run), greeting, bus=SETTINGS.bus) as client:
        yield peers.ReplayClient(client, SETTINGS.bus.call_deadline_s)


def over(name, old=OLD, new=NEW):
    return pytest.raises(RefusedError, match=rf"life {old} of {name} is over: life {new} has taken its place")


async def test_plays_of_an_older_agent_are_refused_and_leased_again(tmp_path):
    async with serving(tmp_path), joined(tmp_path) as feeder:
        await publish(feeder)
        await design(feeder)
        async with alive(tmp_path, "agent", OLD) as old:
            (lease,) = await old.lease_plays(1, 5.0)
            async with trio.open_nursery() as nursery:

                async def waits():
                    with over("agent-x"):
                        while True:
                            await old.lease_plays(256, 5.0)

                nursery.start_soon(waits)
                await trio.testing.wait_all_tasks_blocked(0.01)
                async with alive(tmp_path, "agent", NEW) as new:
                    for late in (
                        lambda: old.submit_plays((ended(lease, 1.0, 1),)),
                        lambda: old.release_play(lease),
                        lambda: old.lease_plays(1, 0.0),
                    ):
                        with over("agent-x"):
                            await late()
                    assert (await feeder.status()).counts.plays == 0
                    with trio.fail_after(SETTINGS.play.lease_s / 2):  # both lives have one pid, as lives in containers
                        while not (again := [one for one in await new.lease_plays(256, 5.0) if one.id == lease.id]):
                            pass
                    await new.submit_plays((ended(again[0], 1.0, 1),))
                    assert (await feeder.status()).counts.plays == 1


async def test_a_batch_a_checkpoint_and_weights_of_an_older_learner_are_refused_also_after_a_restart(tmp_path):
    async with serving(tmp_path), joined(tmp_path) as feeder:
        await publish(feeder)
        await design(feeder)
        await play(feeder, 8)
        async with alive(tmp_path, "learner", OLD) as old:
            assert isinstance(await old.take_batch(1, 5.0), protocol.Batch)
            async with alive(tmp_path, "learner", NEWER_SUPERVISOR) as new:
                await refused_all(old, "learner-x", NEWER_SUPERVISOR)
                assert isinstance(await new.take_batch(1, 5.0), protocol.Batch)
                weights = await new.publish(1, "digest-1", "/weights/1", protocol.StepMetrics())
    async with serving(tmp_path), joined(tmp_path) as feeder:
        for late in (OLD, NEW, LifeNumber()):
            with over("learner-x", late, NEWER_SUPERVISOR):
                async with alive(tmp_path, "learner", late):
                    pass
        assert feeder.client.pulse.weights == weights
        async with alive(tmp_path, "learner", NEWER_SUPERVISOR) as same:
            await same.checkpointed(1)


async def refused_all(learner, name, newer):
    for late in (
        lambda: learner.take_batch(1, 0.0),
        lambda: learner.publish(1, "late", "/weights/late", protocol.StepMetrics()),
        lambda: learner.checkpointed(1),
    ):
        with over(name, OLD, newer):
            await late()


async def test_each_supervisor_has_a_greater_number_than_all_before_it(tmp_path):
    numbers = []
    for _ in range(2):
        async with serving(tmp_path), joined(tmp_path, "supervisor", "up") as up:
            numbers += [await up.enroll(), await up.enroll()]
    assert numbers == [1, 2, 3, 4]


def test_known_names_are_bounded_and_joined_hosts_cannot_have_the_runs_own_forgotten(tmp_path):
    def life(name, number=1):
        return protocol.Hello(protocol.PROTOCOL_VERSION, "", "agent", name, 1, life=LifeNumber(number, 1))

    with open_store(tmp_path, "nosync") as store:
        state = RunState(SETTINGS, b"secret")
        lives = Lives(state, store)
        assert not lives.note(protocol.Hello(protocol.PROTOCOL_VERSION, "", "agent", "uncounted", 1))
        assert lives.note(life("learner", 2))
        assert not lives.note(life("learner", 2))
        for index in range(MOST + 5):
            assert lives.note(life(f"agent-{index}@far"))
        store.commit(store.encode(state.changes()))
    with open_reader(tmp_path) as store:
        known = store.get("meta", "lives", KnownLives).newest
        assert list(known)[:2] == ["learner", "agent-6@far"]
        assert len(known) == MOST
        assert Lives(state, store).over(life("learner"))
