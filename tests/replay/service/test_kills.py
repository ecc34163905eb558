"""A service that is killed, or has no space left, loses nothing that it acknowledged."""

import os
import resource
import signal
from contextlib import closing

import lmdb
import msgspec
import pytest
import trio

from replay.inspect import environments
from replay.ledger.records import BatchRecord, PlayRecord
from replay.store import open_reader
from spade import protocol
from spade.errors import RunError
from tests.peers import changed, pid_of
from tests.replay.feeding import design, leased, publish
from tests.replay.replay_world import ended, environment, rejected
from tests.replay.service.running import APART, SETTINGS, apart, joined, serving


async def test_kill_9_loses_nothing_acknowledged(tmp_path):
    """Killed in mid-traffic twice: what it acknowledged is there, nothing counts twice, the loop goes on by itself."""
    settings = changed(APART, replay={"durability": "nosync"})
    send, acknowledged = trio.open_memory_channel(1_000)
    plays, versions, trained = [], [], []

    async def agent(replay):
        while True:
            for number, lease in enumerate(await replay.lease_plays(4, 5.0)):
                await replay.submit_plays((ended(lease, float(number % 2), versions[-1]),))
                await send.send(lease.id)

    async def designer(replay):
        while True:
            for job in await replay.lease_designs(1, 5.0):
                await replay.submit_environment(environment(job, versions[-1]))

    async def learner(replay):
        step = 1
        while True:
            batch = await replay.take_batch(step, 5.0)
            if isinstance(batch, protocol.Batch):
                trained.append((step, [group.id for group in batch.groups]))
                versions.append((await publish(replay, step)).version)
                step += 1

    async with apart(tmp_path, settings) as (supervisor, replay):
        async with trio.open_nursery() as nursery:
            versions.append((await publish(replay)).version)
            for role in (agent, designer, learner):
                nursery.start_soon(role, replay)
            for _ in range(3):
                plays += [await acknowledged.receive() for _ in range(50)]
                os.kill(pid_of(supervisor, "replay"), signal.SIGKILL)
            plays += [await acknowledged.receive() for _ in range(50)]
            nursery.cancel_scope.cancel()
        async with joined(tmp_path, settings=settings) as replay:
            status = await replay.status()
    with open_reader(tmp_path / "store") as store:
        finished = {play.id for play in store.scan("plays", PlayRecord) if play.state == "finished"}
        recorded = [(batch.step, [group.id for group in batch.groups]) for batch in store.scan("batches", BatchRecord)]
    assert len(set(plays)) == len(plays) == 200
    assert set(plays) <= finished
    assert status.counts.plays == len(finished)
    assert versions == list(range(1, len(versions) + 1))
    assert recorded[: len(trained)] == trained
    groups = [group for _, groups in recorded for group in groups]
    assert len(set(groups)) == len(groups)


async def test_killed_between_effect_and_commit_it_has_acknowledged_nothing_of_it(tmp_path):
    """SIGKILL while the commits of a hundred plays are held up: no answer had left; sent again, each is there once."""
    settings = changed(APART, play={"group_size": 50}, learner={"batch_sequences": 50})
    acknowledged = []

    async def submit(replay, lease):
        await replay.submit_plays((ended(lease, float(len(lease.id) % 2), 1),))
        acknowledged.append(lease.id)

    async with apart(tmp_path, settings) as (supervisor, replay):
        await publish(replay)
        await design(replay)
        leases = await leased(replay, 100)
        async with trio.open_nursery() as nursery:
            with closing(lmdb.open(str(tmp_path / "store"))) as environment, environment.begin(write=True):
                # While this transaction lasts the service cannot commit.
                for lease in leases:
                    nursery.start_soon(submit, replay, lease)
                for _ in range(3):  # heartbeats after the plays were answered: the service has them all
                    await replay.client.wait_pulse()
                os.kill(pid_of(supervisor, "replay"), signal.SIGKILL)
            assert acknowledged == []
            with open_reader(tmp_path / "store") as store:
                assert not [play for play in store.scan("plays", PlayRecord) if play.state == "finished"]
        status = await replay.status()
    assert (len(set(acknowledged)), status.counts.plays, status.counts.late_plays) == (100, 100, 0)


async def test_a_full_disk_stops_the_run_with_one_line_and_loses_nothing_acknowledged(tmp_path):
    acknowledged = []

    async def fill_up():
        async with apart(tmp_path, SETTINGS) as (supervisor, replay):
            await publish(replay)
            (job,) = await replay.lease_designs(1, 5.0)
            # From now on no file of the service may grow by more than a megabyte.
            most = (tmp_path / "store" / "data.mdb").stat().st_size + 1_000_000
            resource.prlimit(pid_of(supervisor, "replay"), resource.RLIMIT_FSIZE, (most, most))
            for attempt in range(1, 1_000):
                big = msgspec.structs.replace(rejected(job, 1, attempt), completion=os.urandom(20_000).hex())
                await replay.reject_candidate(big)
                acknowledged.append(attempt)

    with pytest.raises(RunError) as stopped:
        await fill_up()
    assert str(stopped.value).startswith(f"replay: {tmp_path / 'store'}: the store cannot be written")
    assert "\n" not in str(stopped.value)
    assert len(acknowledged) > 10
    assert "Traceback" not in (tmp_path / "logs" / "replay.log").read_text()
    async with serving(tmp_path), joined(tmp_path) as replay:  # there is space again
        assert (await replay.status()).counts.rejected_candidates == len(acknowledged)
    assert [reject.attempt for reject in environments.read_rejected(tmp_path / "store")] == acknowledged
