"""An old run's memory in a new run: what designers are shown, and what is refused."""

import pytest

from replay.inspect.contents import read_contents
from replay.inspect.import_memory import check_fit, import_memory, read_memory
from replay.inspect.verify import find_problems
from replay.ledger.ledger import Ledger
from replay.ledger.records import MemoryEntry, Source
from replay.store import open_reader, open_store
from replay.store.load import open_run
from spade.errors import RunError
from spade.protocol import LeaseDesigns
from tests.replay.kept_world import SETTINGS, keep_world
from tests.replay.replay_world import config, weights

# Enough that some of it are of the regret and win rate that designers are shown.
REMEMBERS = config("learner.batch_sequences=24", "play.lease_s=10", "design.lease_s=20", "design.memory_records=50")


def bring(new, old, settings=SETTINGS):
    memory = read_memory(old)
    with open_store(new, "nosync") as store:
        return import_memory(store, open_run(store, settings).state, memory)


def remembered(folder):
    with open_reader(folder) as store:
        records = store.scan("memory", MemoryEntry)
        return records, store.get_many("sources", [record.environment for record in records], Source)


def test_a_new_run_shows_its_designers_the_memory_of_the_old_one(tmp_path):
    world = keep_world(tmp_path / "old", 3, 90.0, REMEMBERS)
    done = bring(tmp_path / "new", tmp_path / "old", REMEMBERS)
    old, old_sources = remembered(tmp_path / "old")
    new, new_sources = remembered(tmp_path / "new")
    assert (done.taken, done.known, done.foreign) == (len(old), 0, 0) == (len(world.ledger.state.memory), 0, 0)
    assert new_sources == old_sources
    for one, other in zip(new, old, strict=True):
        assert one.environment.endswith(f":{other.environment}")
        assert (one.skill, one.source, one.regret, one.win_rate) == (
            other.skill, other.source, other.regret, other.win_rate,
        )  # fmt: skip
    with open_store(tmp_path / "new", "nosync") as store:
        opened = open_run(store, REMEMBERS)
        ledger = Ledger(opened.state)
        ledger.apply(weights(0), "learner/1", 0.0)
        ledger.advance(0.0)
        jobs = ledger.apply(LeaseDesigns(12, 0.0), "designer/1", 0.0).jobs
        shown = {seed.environment for job in jobs for seed in job.seeds}
        assert shown
        assert shown <= {record.environment for record in new}
        store.commit(store.encode(ledger.state.changes()))
    with open_reader(tmp_path / "new") as store:
        assert find_problems(read_contents(store)) == []


def test_a_second_import_brings_nothing_and_a_run_that_went_on_keeps_its_own(tmp_path):
    keep_world(tmp_path / "old", 3, 90.0)
    keep_world(tmp_path / "new", 4, 40.0)
    own = remembered(tmp_path / "new")[0]
    first = bring(tmp_path / "new", tmp_path / "old")
    again = bring(tmp_path / "new", tmp_path / "old")
    assert (again.taken, again.known) == (0, first.taken)
    assert first.taken == 5 == len(remembered(tmp_path / "new")[0])  # memory_records: the oldest, its own, fell out
    assert own
    with open_reader(tmp_path / "new") as store:
        assert find_problems(read_contents(store)) == []


def test_an_imported_environment_keeps_its_name(tmp_path):
    keep_world(tmp_path / "a", 3, 90.0)
    bring(tmp_path / "b", tmp_path / "a")
    bring(tmp_path / "c", tmp_path / "b")
    names = [[record.environment for record in remembered(tmp_path / name)[0]] for name in "bc"]
    assert names[0] == names[1]


def test_skills_the_new_run_does_not_have_stay_behind(tmp_path):
    keep_world(tmp_path / "old", 3, 90.0)
    one = config("run.skills=['mathematical reasoning']", "design.active_skills=1")
    done = bring(tmp_path / "new", tmp_path / "old", one)
    assert done.foreign + done.taken == 5
    assert done.foreign > 0
    assert all(record.skill == "mathematical reasoning" for record in remembered(tmp_path / "new")[0])


@pytest.mark.parametrize("settings", [("model.profile=full", "play.max_turns=12"), ("play.win_return=0.5",)])
def test_another_meaning_is_refused(settings):
    with pytest.raises(RunError, match=settings[0].split("=")[0]):
        check_fit(config(*settings), config())
