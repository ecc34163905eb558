"""A ledger whose pool is of a library: levels of jobs, windows that rise and close, one instance for a chunk."""

import msgspec
import pytest

from replay.inspect.contents import read_contents
from replay.inspect.verify.work import find_work_problems
from replay.ledger.batches import RefusalError
from replay.ledger.ledger import Ledger
from replay.ledger.state import RunState
from replay.service.status import _describe_drawing
from replay.store import open_store
from replay.store.load import open_run
from replay.store.pool import settle_pool
from spade.codec import compute_program_digest
from spade.pools import Entry, LevelWindow, PoolList, PoolProgram, set_level, write_program
from spade.pools.levels import FAILURES
from spade.protocol import LeaseDesigns, LeasePlays, RejectCandidate, SubmitEnvironment
from tests.peers import changed
from tests.replay.replay_world import SECRET, config, played, started, void

SETTINGS = config(
    "design.active_environments=2", "design.round_jobs=2", "design.active_skills=1", "play.window_chunks=1",
    "play.group_size=4", "learner.batch_sequences=900", "design.source=pool", "pool.source=rlve:Sorting,SAT",
    'sandbox.libraries=["rlve"]', "pool.difficulty=window", "pool.window_plays=4", "pool.window_rate=0.75",
    "play.instances=group", "run.seed=5",
)  # fmt: skip
SOURCES = {name: f"class {name}Env(RlveEnv):\n    problem = '{name}'\n    level = 0\n" for name in ("SAT", "Sorting")}
POOL = PoolList(tuple(Entry(name, compute_program_digest(source), levels=True) for name, source in SOURCES.items()))


@pytest.fixture
def ledger():
    state = RunState(SETTINGS, SECRET)
    state.take_pool(POOL, None)
    return started(state)


def lease(ledger, now=0.0):
    answer = ledger.apply(LeaseDesigns(9, 0.0, ledger.state.pool.digest), "curator/1", now)
    return answer.jobs if answer else ()


def brought(job, level=None):
    source = set_level(SOURCES[job.program], job.level if level is None else level)
    return SubmitEnvironment(
        job=job.id, lease=job.lease, attempt=1, document=job.program, name="Env", source=source, hint="",
        seed_sensitive=True, first_observation="Sort.", trajectory=None,
    )  # fmt: skip


def failing(job):
    return RejectCandidate(job.id, job.lease, 1, job.program, SOURCES[job.program], "open", "no", None, True)


def round_of(ledger, now, value=1.0):
    """Bring all programs that are asked for and play them out; the jobs."""
    jobs = lease(ledger, now)
    for job in jobs:
        ledger.apply(brought(job), "curator/1", now)
    ledger.advance(now)
    answer = ledger.apply(LeasePlays(100, 0.0), "agent/1", now)
    for play in answer.plays if answer else ():
        ledger.apply(played(play, value, 1), "agent/1", now)
    ledger.advance(now)
    return jobs


def test_won_plays_raise_the_window_from_which_the_next_jobs_have_their_levels(ledger):
    jobs = [job for now in range(40) for job in round_of(ledger, float(now))]
    assert {job.level for job in jobs[:2]} == {0}
    assert {job.level for job in jobs} >= {0, 1, 2, 3, 4}
    for window in ledger.state.levels.windows.values():
        assert window.low == max(0, window.high - 3)
        assert window.high > 4
    drawn = _describe_drawing(ledger.state.pool, ledger.state.levels)
    assert drawn.level_high - drawn.level_low == 3
    assert drawn.levels_capped == 0


def test_lost_plays_and_voids_raise_nothing(ledger):
    for now in range(9):
        round_of(ledger, float(now), value=0.0)
    for job in lease(ledger, 9.0):
        ledger.apply(brought(job), "curator/1", 9.0)
    ledger.advance(9.0)
    for play in ledger.apply(LeasePlays(100, 0.0), "agent/1", 9.0).plays[:1]:
        ledger.apply(void(play), "agent/1", 9.0)
    assert {(each.high, each.plays) for each in ledger.state.levels.windows.values()} == {(0, 0)}


def test_the_plays_of_a_chunk_are_of_one_instance_which_the_curator_opened(ledger):
    opened = {job.program: job.sampler for job in lease(ledger)}
    for job in list(ledger.state.jobs.values()):
        ledger.apply(brought(job), "curator/1", 0.0)
    ledger.advance(0.0)
    seeds = {}
    for play in ledger.apply(LeasePlays(100, 0.0), "agent/1", 0.0).plays:
        seeds.setdefault(ledger.state.environments[play.environment].program, set()).add(play.seed)
    assert seeds == {name: {seed} for name, seed in opened.items()}


def test_plays_have_instances_of_their_own_unless_that_is_asked_for():
    state = RunState(changed(SETTINGS, play={"instances": "play"}), SECRET)
    state.take_pool(POOL, None)
    ledger = started(state)
    for job in lease(ledger):
        ledger.apply(brought(job), "curator/1", 0.0)
    ledger.advance(0.0)
    plays = ledger.apply(LeasePlays(100, 0.0), "agent/1", 0.0).plays
    assert len({play.seed for play in plays}) == len(plays) == 8


def test_a_fixed_level_is_that_of_every_program_that_has_levels():
    state = RunState(changed(SETTINGS, pool={"difficulty": 3}), SECRET)
    state.take_pool(PoolList((POOL.entries[0], msgspec.structs.replace(POOL.entries[1], levels=False))), None)
    assert {job.program: job.level for job in lease(started(state))} == {"SAT": 3, "Sorting": 0}


def test_a_program_at_another_level_than_the_jobs_is_refused(ledger):
    job = lease(ledger)[0]
    with pytest.raises(RefusalError, match=f"not the program {job.program} of the pool, at level 0"):
        ledger.apply(brought(job, level=1), "curator/1", 0.0)


def test_slots_without_an_instance_close_the_level_and_a_name_without_a_level_is_drawn_no_more(ledger):
    slots = 0
    for now in range(20):
        for job in lease(ledger, float(now)):
            slots += job.program == "SAT"
            ledger.apply(failing(job) if job.program == "SAT" else brought(job), "curator/1", float(now))
        ledger.advance(float(now))
        for play in ledger.apply(LeasePlays(100, 0.0), "agent/1", float(now)).plays:
            ledger.apply(played(play, 0.0, 1), "agent/1", float(now))
        ledger.advance(float(now))
    assert slots == FAILURES
    assert ledger.state.levels.capped == {"SAT": -1}
    assert ledger.state.pool.playable == 1


def test_windows_go_on_exactly_after_each_commit(tmp_path):
    """Two runs of one seed: the other is opened from its store before every round."""
    settings = changed(SETTINGS, replay={"durability": "nosync"})
    states = []
    for killed in (False, True):
        run = tmp_path / f"run-{killed}"
        (run / "pool").mkdir(parents=True)
        for name, source in SOURCES.items():
            write_program(run / "pool", PoolProgram(name, source, levels=True))
        with open_store(run / "store", settings) as store:
            state = open_run(store, settings).state
            settle_pool(store, state, run / "pool")
            ledger = started(state)
            for now in range(12):
                round_of(ledger, float(now), value=float(now % 5 != 0))
                store.commit(store.encode(ledger.state.changes()))
                if killed:
                    ledger = Ledger(open_run(store, settings).state)
                    ledger.advance(float(now))
            states.append(ledger.state)
            found = read_contents(store)
            assert list(find_work_problems(found)) == []
            assert found.windows.items() <= dict(ledger.state.levels.windows).items()
            found.windows["SAT"] = LevelWindow("SAT", low=3, high=2)
            found.environments["e000000"].level += 1
            assert len(list(find_work_problems(found))) == 2
    assert states[0].levels.windows == states[1].levels.windows
    assert max(each.high for each in states[0].levels.windows.values()) > 1
    assert [job.level for job in states[0].jobs.values()] == [job.level for job in states[1].jobs.values()]
