"""A store that is not what was committed: every reader names what is damaged in one line, and none goes on with it."""

from contextlib import closing

import lmdb
import pytest

from replay.batches import batch, recorded
from replay.compacting import compact
from replay.contents import read_contents
from replay.loading import open_run
from replay.records import BatchRecord
from replay.store import Commit, DamagedError, open_reader, open_store
from replay.store.seal import NOT_COMMITTED, sealed
from replay.verify import problems
from spade.app.rundir import RunDir
from spade.codec import encode
from spade.errors import RunError
from tests.fuzz.store import flips, simulated, wrong
from tests.replay.kept_world import SETTINGS, keep_world


def test_a_flipped_bit_is_named_in_one_line_or_changes_nothing(tmp_path):
    """`python -m tests.fuzz.store` flips more."""
    run = simulated(tmp_path, until=30.0)
    found = flips(run, RunDir(run).config(), seed=3, count=12)
    assert [(place, bit, what) for place, bit, what in found if wrong(what)] == []
    assert {what["verify"] for _, _, what in found} == {"same", "named"}


def raw(folder, change):
    """Change the tables without their store."""
    with closing(lmdb.open(str(folder), max_dbs=20)) as environment, environment.begin(write=True) as transaction:
        change(environment, transaction)


def swap(table, first, second):
    """The values of two keys change places."""

    def change(environment, transaction):
        handle = environment.open_db(table.encode(), txn=transaction)
        values = [transaction.get(key.encode(), db=handle) for key in (first, second)]
        transaction.put(first.encode(), values[1], db=handle)
        transaction.put(second.encode(), values[0], db=handle)
        recommit(environment, transaction)

    return change


def recommit(environment, transaction):
    """The record of the commit, as the store itself writes it."""
    number = encode(Commit(transaction.id()))
    transaction.put(b"commit", sealed("meta", b"commit", number), db=environment.open_db(b"meta", txn=transaction))


def named(folder):
    with open_reader(folder) as store:
        return problems(read_contents(store))


@pytest.mark.parametrize("table", ["jobs", "trajectories"])
def test_records_that_changed_places_are_named(tmp_path, table):
    keep_world(tmp_path, 4, 20.0)
    raw(tmp_path, swap(table, "j000000", "j000001"))
    assert named(tmp_path) == [f"{table} {key}: {NOT_COMMITTED}" for key in ("j000000", "j000001")]


def test_the_service_starts_on_no_damaged_record_and_sends_no_damaged_batch(tmp_path):
    keep_world(tmp_path, 4, 60.0)
    with open_reader(tmp_path) as store:
        taken = store.scan("batches", BatchRecord)[-1]
        first, second = (member.trajectory for member in taken.groups[0].members[:2])
    raw(tmp_path, swap("trajectories", first, second))
    with open_store(tmp_path, "nosync") as store, pytest.raises(DamagedError, match=f"trajectories {first}: "):
        batch(store, recorded(store, taken.step))
    raw(tmp_path, swap("jobs", "j000000", "j000001"))
    with open_store(tmp_path, "nosync") as store, pytest.raises(DamagedError, match="jobs j000000: its bytes"):
        open_run(store, SETTINGS)


def test_a_damaged_store_is_not_compacted(tmp_path):
    keep_world(tmp_path, 4, 20.0)
    raw(tmp_path, swap("jobs", "j000000", "j000001"))
    before = (tmp_path / "data.mdb").read_bytes()
    with pytest.raises(DamagedError, match="jobs j000000"):
        compact(tmp_path)
    assert (tmp_path / "data.mdb").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda e, t: t.drop(e.open_db(b"jobs", txn=t)), "jobs: the table is missing"),
        (lambda e, t: t.drop(e.open_db(b"meta", txn=t)), "meta: the table is missing"),
        (lambda e, t: t.delete(b"commit", db=e.open_db(b"meta", txn=t)), f"meta commit: {NOT_COMMITTED}"),
        (lambda e, t: t.put(b"x", b"", db=e.open_db(b"meta", txn=t)), "this is not the state of the last commit"),
    ],
)  # fmt: skip
def test_a_store_that_lost_a_table_or_its_last_commit_is_refused(tmp_path, change, says):
    keep_world(tmp_path, 4, 20.0)
    raw(tmp_path, change)
    for opened in open_reader(tmp_path), open_store(tmp_path, "nosync"):
        with pytest.raises(RunError) as refused:
            opened.__enter__()
        assert says in str(refused.value)
        assert "\n" not in str(refused.value)
