"""A run of a pool over a real store: its order after kills, and pools that are not the run's."""

import os
import shutil
import signal

import pytest

from replay.inspect.contents import StoreContents, read_contents
from replay.inspect.verify import find_problems
from replay.inspect.verify.work import find_work_problems
from replay.ledger.records import Job
from replay.store import open_reader, open_store
from replay.store.load import open_run
from replay.store.newest_programs import read_newest_programs
from replay.store.pool import settle_pool
from spade import protocol
from spade.errors import RefusedError, RunError
from spade.pools import PoolProgram, read_list, write_program
from tests import peers
from tests.peers import pid_of, supervised
from tests.replay.replay_world import config, ended

SETTINGS = config(
    "design.active_environments=2", "design.round_jobs=2", "design.active_skills=1", "play.window_chunks=1",
    "play.group_size=2", "bus.heartbeat_s=0.1", "bus.silence_s=30", "bus.call_deadline_s=120",
    "replay.durability=sync", "design.source=pool", "pool.source=folder:somewhere", "run.seed=3",
)  # fmt: skip


@pytest.fixture
def run(tmp_path):
    return started_in(tmp_path / "run")


def started_in(run):
    (run / "pool").mkdir(parents=True)
    for number in range(5):
        write_program(run / "pool", PoolProgram(f"p{number}", f"class P{number}Env: ...\n"))
    return run


async def order(run, jobs, killed_at=()):
    """The programs of so many jobs, one played after the other; the service is killed while it has these."""
    drawn, digest, address = [], read_list(run / "pool").digest, f"ipc://{run}/replay"
    async with (
        supervised(run, SETTINGS, "replay") as supervisor,
        peers.joined(address, SETTINGS, "learner") as learner,
        peers.joined(address, SETTINGS, "curator") as curator,
        peers.joined(address, SETTINGS, "agent") as agent,
    ):
        await learner.publish(0, "digest-0", "/weights/0", protocol.StepMetrics())
        for number in range(jobs):
            (job,) = await curator.lease_designs(1, 5.0, digest)
            drawn.append(job.program)
            if number in killed_at:
                os.kill(pid_of(supervisor, "replay"), signal.SIGKILL)
            await curator.submit_environment(brought(job, run))
            if number in killed_at:
                os.kill(pid_of(supervisor, "replay"), signal.SIGKILL)
            for play in await agent.lease_plays(2, 5.0):
                await agent.submit_plays((ended(play, 1.0, 1),))
    return drawn


def brought(job, run):
    return protocol.SubmitEnvironment(
        job=job.id, lease=job.lease, attempt=1, document=job.program, name="Env",
        source=(run / "pool" / f"{job.program}.py").read_text(), hint="", seed_sensitive=True,
        first_observation="Go.", trajectory=None,
    )  # fmt: skip


async def test_a_killed_service_goes_on_in_the_order_of_one_that_was_not(run, tmp_path):
    undisturbed = await order(run, 11)
    assert sorted(undisturbed[:5]) == sorted(undisturbed[5:10]) == [f"p{number}" for number in range(5)]
    other = started_in(tmp_path / "killed")
    assert await order(other, 11, killed_at=(5,)) == undisturbed
    for each in run, other:
        with open_reader(each / "store") as store:
            assert find_problems(read_contents(store)) == []


def refused(run, settings=SETTINGS):
    with open_store(run / "store", "sync") as store, pytest.raises(RunError) as error:
        settle_pool(store, open_run(store, settings).state, run / "pool")
    return str(error.value)


def settle(run, settings=SETTINGS):
    with open_store(run / "store", "sync") as store:
        state = open_run(store, settings).state
        settle_pool(store, state, run / "pool")
    return state


def test_the_list_is_kept_when_the_run_starts_and_another_is_refused(run):
    assert settle(run).pool.digest == settle(run).pool.digest == read_list(run / "pool").digest
    (run / "pool/p9.py").write_text("class P9Env: ...")
    assert refused(run).endswith("pool: p9 is new since the run started; bring back the pool it was started with")
    (run / "pool/p9.py").unlink()
    (run / "pool/p1.py").unlink()
    assert "p1 is missing since the run started" in refused(run)


def test_verify_sees_a_program_drawn_out_of_turn(run):
    state = settle(run)
    pool, draws = state.pool.pool, state.pool.draws
    jobs = [Job(f"j{number:06d}", number, 0, "optimization", 0.0, "failed", program="p1") for number in range(2)]
    found = StoreContents(jobs={job.id: job for job in jobs}, pool=pool, draws=draws)
    assert "jobs j000001: draws p1 again, this pass has not drawn p0 yet" in list(find_work_problems(found))


async def test_designers_and_curators_of_another_pool_are_refused_in_one_line(run):
    async with supervised(run, SETTINGS, "replay"):
        for role, digest, line in (
            ("designer", "", "this run plays a pool: start curators"),
            ("curator", "0" * 32, "your pool is 000000000000, the run's is"),
        ):
            async with peers.joined(f"ipc://{run}/replay", SETTINGS, role) as peer:
                with pytest.raises(RefusedError, match=line):
                    await peer.lease_designs(1, 0.0, digest)


VARYING = config("design.seeds=folder:somewhere", "run.seed=3")


def test_seeds_are_kept_when_the_run_starts_and_their_folder_is_needed_no_more(run):
    memory = settle(run, VARYING).memory
    shutil.rmtree(run / "pool")
    again = settle(run, VARYING).memory
    offered = [memory.seeds("optimization", 2, draw) for draw in range(20)]
    assert offered == [again.seeds("optimization", 2, draw) for draw in range(20)]
    assert {seed.environment for seeds in offered for seed in seeds} == {f"SEED:p{number}" for number in range(5)}
    with open_reader(run / "store") as store:
        assert find_problems(read_contents(store)) == []


def test_seeds_are_none_of_the_newest_programs(run):
    settle(run, VARYING)
    with open_reader(run / "store") as store:
        assert read_newest_programs(store, 1, 1_000).sources == ()
