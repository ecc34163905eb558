"""The newest programs, as a measurement of their diversity asks for them, and its result; on a real store."""

from contextlib import asynccontextmanager

import msgspec
import pytest
import trio

from replay.ledger.keys import make_imported_id
from replay.ledger.records import Source
from replay.service import process
from replay.store import open_reader, open_store
from replay.store.newest_programs import read_newest_programs
from spade import protocol
from spade.errors import RefusedError
from spade.processes.entry import Launch
from spade.protocol import Diversity
from tests.peers import changed
from tests.replay.everyone import everyone
from tests.replay.feeding import publish
from tests.replay.replay_world import config, environment

SETTINGS = config("design.active_environments=4", "bus.heartbeat_s=0.1", "bus.silence_s=60", "bus.call_deadline_s=60")
FOUND = Diversity(step=0, share=0.25, programs=24, embedding="tfidf", seconds=0.5)


@asynccontextmanager
async def looping(run, settings=SETTINGS):
    """The service in this process, and a peer."""
    address, ready = f"ipc://{run}/replay", trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            process.run, Launch("replay", "replay", "", str(run), address, bind=address), settings, ready.set
        )
        await ready.wait()
        async with everyone(address, settings) as replay:
            yield replay
        nursery.cancel_scope.cancel()


async def design(replay, names):
    """Hand in a program of each name, the last job first."""
    jobs = await replay.lease_designs(len(names), 5.0)
    for job, name in reversed(list(zip(jobs, names, strict=True))):
        await replay.submit_environment(environment(job, 1, name))


async def test_the_newest_programs_come_in_the_order_of_their_jobs(tmp_path):
    async with looping(tmp_path) as replay:
        await publish(replay)
        assert await replay.newest_programs(3) == ()
        await design(replay, ["AEnv", "BEnv", "CEnv", "DEnv"])
        assert await replay.newest_programs(3) == ("class BEnv: ...", "class CEnv: ...", "class DEnv: ...")
        assert len(await replay.newest_programs(protocol.MOST_PROGRAMS)) == 4
    with open_reader(tmp_path / "store") as store:
        assert [source.source for source in store.last("sources", Source, 2)] == ["class DEnv: ...", "class CEnv: ..."]
        room = len("class AEnv: ...")
        assert read_newest_programs(store, 4, 3 * room - 1).sources == ("class CEnv: ...", "class DEnv: ...")
        assert read_newest_programs(store, 4, 0).sources == ()


async def test_imported_programs_are_none_of_the_newest_programs(tmp_path):
    """The ids of imported environments begin with the run that they are from, so they may sort after the run's own."""
    async with looping(tmp_path) as replay:
        await publish(replay)
        await design(replay, ["AEnv"])
    with open_store(tmp_path / "store", "sync") as store:
        ids = [make_imported_id(origin, "e000007") for origin in ("0a1b2c3d4e5f6071", "e9999993d4e5f607", "f" * 16)]
        store.commit(store.encode([("sources", id, Source("class OldEnv: ...", "", "")) for id in ids]))
        assert read_newest_programs(store, 2, 1_000).sources == ("class AEnv: ...",)


async def test_programs_that_would_not_fit_into_a_message_are_left_out(tmp_path):
    small = changed(SETTINGS, bus={"max_message_bytes": SETTINGS.bus.max_message_bytes})
    async with looping(tmp_path, small) as replay:
        await publish(replay)
        jobs = await replay.lease_designs(3, 5.0)
        large = small.bus.max_message_bytes // 4 + 1
        for job in jobs:
            told = msgspec.structs.replace(environment(job, 1), source=f"class AEnv: ...  # {job.id} {'x' * large}")
            await replay.submit_environment(told)
        (newest,) = await replay.newest_programs(3)
        assert newest.startswith(f"class AEnv: ...  # {jobs[-1].id}")


async def test_a_diversity_is_a_row_and_a_gauge_that_stays(tmp_path):
    async with looping(tmp_path) as replay:
        await publish(replay)
        assert (await replay.status()).recent.diversity is None
        for wrong, why in (
            ({"step": 1}, "nothing was published after"),
            ({"seconds": float("nan")}, "seconds must be"),
        ):
            with pytest.raises(RefusedError, match=why):
                await replay.measured_diversity(msgspec.structs.replace(FOUND, **wrong))
        await replay.measured_diversity(FOUND)
        await replay.measured_diversity(FOUND)
    async with looping(tmp_path) as replay:
        assert (await replay.status()).recent.diversity == 0.25
    rows = [msgspec.json.decode(line) for line in (tmp_path / "metrics.jsonl").read_bytes().splitlines()]
    (row,) = [row for row in rows if row["kind"] == "diversity"]
    assert {name: row[name] for name in Diversity.__struct_fields__} == msgspec.structs.asdict(FOUND)
