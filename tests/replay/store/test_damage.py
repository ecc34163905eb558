"""A store that is not what was committed: every reader names what is damaged in one line, and none goes on with it."""

import os
import re
import resource
import shlex
import subprocess
import sys
from contextlib import closing, nullcontext

import lmdb
import pytest

from replay.inspect.contents import read_contents
from replay.inspect.verify import find_problems
from replay.ledger.records import BatchRecord, Job
from replay.store import Commit, DamagedError, open_reader, open_store
from replay.store.compact import compact
from replay.store.load import open_run
from replay.store.past_batches import read_batch, read_recorded
from replay.store.refusal import make_unwritable_error
from replay.store.seal import NOT_COMMITTED, seal_records
from spade.codec import encode
from spade.errors import RunError
from tests.fuzz.store import simulated
from tests.replay.kept_world import SETTINGS

PAGE_BYTES = 4_096


def test_a_flipped_bit_is_named_in_one_line_or_changes_nothing(tmp_path):
    """In a small process, of which each command is a fork."""
    run = simulated(tmp_path, until=30.0)
    flips = [sys.executable, "-m", "tests.fuzz.store", "--flips", "12", "--seed", "3", "--run", str(run)]
    done = subprocess.run(flips, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    (verified,) = (line for line in done.stdout.splitlines() if line.startswith("verify "))
    assert "'same': " in verified
    assert "'named': " in verified


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda data: os.symlink("/dev/zero", data)])
def test_a_store_that_is_no_regular_file_is_refused_before_anybody_waits_for_it(tmp_path, make):
    make(tmp_path / "data.mdb")
    for opened in (open_reader(tmp_path), open_store(tmp_path, "nosync")):
        with pytest.raises(RunError, match=r"data\.mdb: .*not a regular file"), opened:
            pass


@pytest.mark.parametrize("name", ["lock.mdb", "writer.lock", "data.mdb"])
@pytest.mark.parametrize(
    "opened", [open_reader, lambda path: open_store(path, "nosync"), lambda path: nullcontext(compact(path))]
)
def test_a_foreign_store_writes_no_file_outside_its_folder(tmp_path, name, opened):
    store, outside = tmp_path / "store", tmp_path / "outside"
    with open_store(store, "nosync"):
        pass
    (store / name).unlink(missing_ok=True)
    outside.write_bytes(precious := b"precious" * 1_024)
    (store / name).symlink_to(outside)
    with pytest.raises(RunError, match=rf"{name}: is not a regular file"), opened(store):
        pass
    assert outside.read_bytes() == precious


@pytest.mark.parametrize("name", ["lock.mdb", "writer.lock", "data.mdb"])
def test_a_dangling_link_in_a_foreign_store_makes_no_file(tmp_path, name):
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / name).symlink_to(tmp_path / "outside")
    with pytest.raises(RunError, match=rf"{name}: is not a regular file"), open_store(tmp_path / "store", "nosync"):
        pass
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("opened", [open_reader, lambda path: open_store(path, "nosync")])
def test_a_path_that_is_no_text_is_refused_in_one_line(tmp_path, opened):
    with open_store(tmp_path / "a", "nosync"):
        pass
    odd = tmp_path / os.fsdecode(b"\xff")
    (tmp_path / "a").rename(odd)
    with pytest.raises(RunError, match="is not UTF-8 text"), opened(odd):
        pass


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


def rename(table, old, new):
    def change(environment, transaction):
        handle = environment.open_db(table.encode(), txn=transaction)
        transaction.put(new, transaction.pop(old, db=handle), db=handle)
        recommit(environment, transaction)

    return change


def recommit(environment, transaction):
    """The record of the commit, as the store itself writes it."""
    number = encode(Commit(transaction.id()))
    ((key, value),) = seal_records("meta", [(b"commit", number)])
    transaction.put(key, value, db=environment.open_db(b"meta", txn=transaction))


def named(folder):
    with open_reader(folder) as store:
        return find_problems(read_contents(store))


@pytest.mark.parametrize("table", ["jobs", "trajectories"])
def test_records_that_changed_places_are_named(kept, table):
    raw(kept, swap(table, "j000000", "j000001"))
    assert named(kept) == [f"{table} {key}: {NOT_COMMITTED}" for key in ("j000000", "j000001")]


def test_a_key_that_is_no_text_any_more_is_named_in_one_line(kept):
    raw(kept, rename("jobs", b"j000000", b"j\n\xff000"))
    assert named(kept) == [f"jobs j\\n\\xff000: {NOT_COMMITTED}"]


def test_the_service_starts_on_no_damaged_record_and_sends_no_damaged_batch(kept):
    with open_reader(kept) as store:
        taken = store.scan("batches", BatchRecord)[-1]
        first, second = (member.trajectory for member in taken.groups[0].members[:2])
    raw(kept, swap("trajectories", first, second))
    with open_store(kept, "nosync") as store, pytest.raises(DamagedError, match=f"trajectories {first}: "):
        read_batch(store, read_recorded(store, taken.step))
    raw(kept, swap("jobs", "j000000", "j000001"))
    with open_store(kept, "nosync") as store, pytest.raises(DamagedError, match="jobs j000000: its bytes"):
        open_run(store, SETTINGS)


def test_a_damaged_store_is_not_compacted(kept):
    raw(kept, swap("jobs", "j000000", "j000001"))
    before = (kept / "data.mdb").read_bytes()
    with pytest.raises(DamagedError, match="jobs j000000"):
        compact(kept)
    assert (kept / "data.mdb").read_bytes() == before


@pytest.mark.parametrize(("change", "says"), [
    (lambda e, t: t.drop(e.open_db(b"jobs", txn=t)), "jobs: the table is missing"),
    (lambda e, t: t.drop(e.open_db(b"meta", txn=t)), "meta: the table is missing"),
    (lambda e, t: t.delete(b"commit", db=e.open_db(b"meta", txn=t)), f"meta commit: {NOT_COMMITTED}"),
    (lambda e, t: t.put(b"x", b"", db=e.open_db(b"meta", txn=t)), "this is not the state of the last commit"),
])  # fmt: skip
def test_a_store_that_lost_a_table_or_its_last_commit_is_refused(kept, change, says):
    raw(kept, change)
    for opened in open_reader(kept), open_store(kept, "nosync"):
        with pytest.raises(RunError) as refused:
            opened.__enter__()
        assert says in str(refused.value)
        assert "\n" not in str(refused.value)


def commit_until_refused(folder, room, committed):
    """Commit jobs until the file may not grow by more than `room`; how many there are then, and what was said."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with open_store(folder, "sync") as store:
            resource.setrlimit(resource.RLIMIT_FSIZE, ((folder / "data.mdb").stat().st_size + room, limit[1]))
            while True:
                job = Job("x" * 500 * (1 + committed % 40), committed, 0, "s", 0.0)
                store.commit(store.encode([("jobs", f"{committed:04d}", job), ("meta", "x", job)]))
                committed += 1
    except RunError as error:
        return committed, str(error)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)


def test_room_that_ends_at_any_write_of_a_commit_loses_nothing_committed(tmp_path):
    """Afterwards every record is whole, and the same commit goes on."""
    committed = 0
    for room in range(0, 12 * PAGE_BYTES, PAGE_BYTES // 2):
        committed, line = commit_until_refused(tmp_path, room, committed)
        assert "its file may not grow" in line
        with open_reader(tmp_path) as store:
            assert [key for key, _ in store.each("jobs")] == [f"{number:04d}" for number in range(committed)]
    assert committed > 20


@pytest.mark.parametrize(("error", "says"), [
    (lmdb.DiskError("mdb_txn_commit: No space left on device"), "the disk is full.*free space"),
    (lmdb.Error("mdb_txn_commit: Disk quota exceeded"), "quota is used up.*free space"),
    (lmdb.Error("mdb_txn_commit: Input/output error"), "written: Input/output error"),
    (lmdb.ReadonlyError("mdb_env_open: Read-only file system"), "written: Read-only file system"),
    (lmdb.CorruptedError("mdb_put: MDB_CORRUPTED: Located page was wrong type"), "Located page.*is damaged"),
])  # fmt: skip
def test_a_commit_that_fails_is_said_to_fail_for_what_it_failed_for(tmp_path, error, says):
    line = str(make_unwritable_error(str(tmp_path), error))
    assert re.search(says, line)
    assert ("free space" in line) == ("free space" in says)


def test_a_store_on_a_read_only_disk_is_read_and_not_written(tmp_path, kept):
    """Make a read-only mount. Skips if namespaces are not allowed."""
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    mount = f"mount --bind {tmp_path} {tmp_path} && mount -o remount,bind,ro {tmp_path}"
    if subprocess.run([*inside, mount], capture_output=True).returncode:
        pytest.skip("no mount namespaces here")
    code = (
        "import sys; from pathlib import Path; from replay.store import open_reader, open_store\n"
        "from replay.inspect.contents import read_contents; from replay.inspect.verify import find_problems\n"
        "from spade.errors import RunError; path = Path(sys.argv[1])\n"
        "with open_reader(path) as store: print(find_problems(read_contents(store)))\n"
        "try: open_store(path, 'sync').__enter__()\n"
        "except RunError as error: print(error)\n"
    )
    script = shlex.join([sys.executable, "-c", code, str(kept)])
    done = subprocess.run([*inside, f"{mount} && {script}"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "[]", f"{kept}/writer.lock: cannot be opened (Read-only file system)"
    ]  # fmt: skip
