"""The store: commits, growth, formats, locks; and a ledger that comes back from it as it was."""

import os
import re
import shlex
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import lmdb
import msgspec
import pytest

from replay.ledger.ledger import Ledger
from replay.ledger.records import Environment, Job, Reject, RunCounters, Source
from replay.store import FORMAT, Format, open_reader, open_store
from replay.store.check import check_all
from replay.store.load import load, open_run
from replay.store.past_batches import read_batch, read_recorded
from spade.errors import RunError
from spade.protocol import LeaseDesigns, LeasePlays, Trajectory
from tests.replay.replay_world import (
    SECRET,
    Pace,
    World,
    config,
    environment,
    played,
    rejected,
    snapshot,
    started,
    trajectory,
)


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path, "nosync") as store:
        yield store


def put(store, *changes):
    store.commit(store.encode(changes))


def reject(completion):
    return Reject("j000000", 1, 1, "optimization", "tides", completion, "parse", "no class", 0.0)


def test_a_commit_is_there_after_reopening(tmp_path):
    with open_store(tmp_path, "sync") as store:
        put(
            store, ("rejects", "b", reject("2")), ("rejects", "a", reject("1")), ("jobs", "x", Job("x", 0, 0, "s", 0.0))
        )
        put(store, ("jobs", "x", None))
    with open_store(tmp_path, "sync") as store:
        assert [record.completion for record in store.scan("rejects", Reject)] == ["1", "2"]
        assert store.get("jobs", "x", Job) is None
        assert store.scan("rejects", Reject, start="b")[0].completion == "2"
        assert store.scan("rejects", Reject, prefix="c") == []


def test_a_trajectory_comes_back_byte_for_byte(store):
    put(store, ("trajectories", "p", trajectory(3)))
    assert store.get_many("trajectories", ["p"], Trajectory) == [trajectory(3)]
    with pytest.raises(RunError, match="missing"):
        store.get_many("trajectories", ["p", "q"], Trajectory)


def test_trajectories_rest_as_they_were_encoded_in_any_order_and_go_whole(tmp_path):
    with open_store(tmp_path, "nosync") as store:
        put(store, *(("trajectories", key, trajectory(version)) for version, key in enumerate("qpr", 1)))
        put(store, ("trajectories", "p", trajectory(9)), ("trajectories", "r", None))
        stored = store.bodies(["p", "q"], lambda views: list(map(bytes, views)))
        assert stored == [msgspec.msgpack.encode(trajectory(version)) for version in (9, 1)]
        assert [key for key, _ in store.each("trajectories")] == ["p", "q"]
        assert store.scan("trajectories", Trajectory, start="q") == [trajectory(1)]
        assert list(store.miscounted()) == []
        with pytest.raises(RunError, match="trajectories r: is missing"):
            store.bodies(["p", "r"], len)


@pytest.mark.parametrize("key", ["", "x" * 512])
def test_a_key_that_no_record_can_have_finds_nothing(store, key):
    assert store.get("jobs", key, Job) is None


def test_pinned_it_shows_one_commit_however_much_is_written_meanwhile(store):
    put(store, *(("rejects", f"{i:04d}", reject("old")) for i in range(1_000)))
    with store.pinned():
        seen = []
        for key, data in store.each("rejects"):
            put(store, ("rejects", f"1{key}", reject("new")), ("rejects", "0999", None))
            seen.append((key, msgspec.msgpack.decode(data, type=Reject).completion))
        assert seen == [(f"{i:04d}", "old") for i in range(1_000)]
        assert store.extents()["rejects"].records == 1_000
    assert store.extents()["rejects"].records == 1_999


def test_the_map_grows_on_demand(tmp_path, monkeypatch):
    monkeypatch.setattr("replay.store.opening.FIRST_MAP_BYTES", 1 << 20)
    with open_store(tmp_path, "nosync") as store:
        for number in range(4):
            put(store, *(("rejects", f"{number}-{i}", reject("x" * 100_000)) for i in range(20)))
        assert len(store.scan("rejects", Reject)) == 80
    assert (tmp_path / "data.mdb").stat().st_size > 8_000_000


FILL = [sys.executable, str(Path(__file__).parent / "fill_disk.py")]


def test_a_store_that_grows_while_it_is_opened_is_read(tmp_path, monkeypatch):
    with open_store(tmp_path, "nosync") as store:
        put(store, *(("rejects", f"x{i}", reject("x" * 1_000_000)) for i in range(12)))

    def checked(environment):
        check_all(environment)
        subprocess.run([*FILL, str(tmp_path), str(16_000_000)], capture_output=True, check=True, timeout=120)

    monkeypatch.setattr("replay.store.opening.check_all", checked)
    with open_reader(tmp_path) as store:
        assert len(store.scan("rejects", Reject)) > 12


def test_a_full_disk_is_one_line_and_loses_nothing_committed(tmp_path):
    done = subprocess.run([*FILL, str(tmp_path), str(4_000_000)], capture_output=True, text=True, timeout=120)
    line, whole, goes_on = done.stdout.splitlines()
    assert "the store cannot be written: its file may not grow" in line
    assert line.endswith("Nothing acknowledged is lost; free space and repeat the command")
    assert (whole, goes_on, done.stderr) == ("True", "True True", "")


def test_a_full_file_system_is_one_line_and_loses_nothing_committed(tmp_path):
    """A disk of 4 MB of its own, where namespaces are allowed."""
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    if subprocess.run([*inside, f"mount -t tmpfs none {tmp_path}"], capture_output=True).returncode:
        pytest.skip("no mount namespaces here")
    script = shlex.join([*FILL, str(tmp_path)])
    mounted = f"mount -t tmpfs -o size=4m none {tmp_path} && {script}"
    done = subprocess.run([*inside, mounted], capture_output=True, text=True, timeout=120)
    line, whole, goes_on = done.stdout.splitlines()
    assert "the store cannot be written: the disk is full" in line
    assert (whole, goes_on, done.stderr) == ("True", "True True", "")


def test_one_writer_at_a_time(tmp_path):
    with open_store(tmp_path, "nosync"), pytest.raises(RunError, match=f"pid {os.getpid()}"):
        open_store(tmp_path, "nosync").__enter__()
    with open_store(tmp_path, "nosync"):
        pass


@pytest.mark.parametrize("other", [FORMAT - 1, FORMAT + 1])
def test_a_format_that_is_not_ours_is_refused_and_nothing_is_written(tmp_path, other):
    """The store of a version that had other tables: not one of ours is made in it."""
    with closing(lmdb.open(str(tmp_path), max_dbs=2)) as environment:
        meta = environment.open_db(b"meta")
        with environment.begin(write=True) as transaction:
            transaction.put(b"format", msgspec.msgpack.encode(Format(other)), db=meta)
    for opened in (open_store(tmp_path, "nosync"), open_reader(tmp_path)):
        with pytest.raises(RunError, match=f"format {other}, this version of spade reads {FORMAT}") as refused:
            opened.__enter__()
        assert "\n" not in str(refused.value)
    with closing(lmdb.open(str(tmp_path), readonly=True, max_dbs=2)) as environment, environment.begin() as transaction:
        assert [key for key, _ in transaction.cursor()] == [b"meta"]
    with pytest.raises(RunError, match="no store"):
        open_reader(tmp_path / "nowhere").__enter__()


def test_a_reader_in_another_process_sees_commits_while_the_writer_has_it(tmp_path):
    code = (
        "import sys; from pathlib import Path\n"
        "from replay.store import open_reader; from replay.ledger.records import Reject\n"
        "with open_reader(Path(sys.argv[1])) as store:\n"
        "    print([r.completion for r in store.scan('rejects', Reject)], flush=True)\n"
        "    input()\n"
        "    print(len(store.scan('rejects', Reject)))\n"
    )
    with open_store(tmp_path, "nosync") as store:
        put(store, ("rejects", "a", reject("1")))
        command = [sys.executable, "-c", code, str(tmp_path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout.readline() == "['1']\n"
            # The map grows under the reader's feet.
            put(store, *(("rejects", f"b{i}", reject("x" * 1_000_000)) for i in range(100)))
            assert reader.communicate("\n", timeout=120)[0] == "101\n"


def keep(store):
    """Commit whatever changed, as the service does after each round."""

    def watch(world):
        changes = store.encode(world.ledger.state.changes())
        if changes:
            store.commit(changes)

    return watch


ACCIDENTS = Pace(lost=0.05, faults=0.05, released=0.05, failed_designs=0.2, step_s=2.0, play_s=2.0)
SETTINGS = config("learner.batch_sequences=24", "play.lease_s=10", "design.lease_s=20", "design.memory_records=5")


def test_a_restart_at_any_moment_loses_nothing_and_goes_on_as_if_nothing_had_been(tmp_path):
    """Two worlds of one seed; the ledger of one is thrown away every few seconds and loaded again from its store."""
    calm = World(SETTINGS, 5, ACCIDENTS)
    calm.run(60.0, lambda world: world.ledger.state.changes())
    with open_store(tmp_path, "nosync") as store:
        shaken = World(SETTINGS, 5, ACCIDENTS)
        for until in range(4, 61, 4):
            shaken.run(float(until), keep(store))
            before = snapshot(shaken.ledger.state)
            shaken.ledger = Ledger(load(store, SETTINGS, SECRET))
            assert snapshot(shaken.ledger.state) == before
    assert shaken.ledger.state.counters.taken_step > 5
    assert shaken.leases == calm.leases
    assert snapshot(shaken.ledger.state) == snapshot(calm.ledger.state)


def test_any_past_batch_can_be_rebuilt(store):
    world = World(SETTINGS, 6, ACCIDENTS)
    world.run(100.0, keep(store))
    assert world.ledger.state.counters.retired_step > 0
    for taken in world.batches:
        record = read_recorded(store, taken.step)
        rebuilt = read_batch(store, record)
        assert (rebuilt.step, rebuilt.version) == (taken.step, taken.version)
        assert [group.rewards for group in rebuilt.groups] == [
            tuple(member.reward for member in group.members) for group in taken.groups
        ]
        assert all(trajectory.sampled == 2 for group in rebuilt.groups for trajectory in group.trajectories)


def test_a_run_keeps_its_secret_and_a_seed_derives_it(tmp_path):
    secrets = []
    for name, overrides in (("a", ()), ("a", ()), ("b", ()), ("c", ("run.seed=7",)), ("d", ("run.seed=7",))):
        with open_store(tmp_path / name, "nosync") as store:
            opened = open_run(store, config(*overrides))
            secrets.append(opened.state.secret)
    assert secrets[0] == secrets[1] != secrets[2]
    assert secrets[3] == secrets[4] != secrets[0]


def test_a_resume_tells_what_changed_and_refuses_another_meaning(store):
    assert not open_run(store, config()).resumed
    opened = open_run(store, config("learner.lr=0.5", "actors.agents=2"))
    assert opened.resumed
    assert opened.changed == {"actors.agents": ("1", "2"), "learner.lr": ("0.0003", "0.5")}
    put(store, *opened.state.changes())
    assert open_run(store, config("learner.lr=0.5", "actors.agents=2")).changed == {}
    with pytest.raises(RunError, match=r"reward\.anchor_low \(0\.4 -> 0\.2\)"):
        open_run(store, config("reward.anchor_low=0.2"))
    with pytest.raises(RunError, match=r"reward\.kind \(regret -> win_rate\)"):
        open_run(store, config("reward.kind=win_rate"))


def test_a_run_keeps_the_corpus_that_it_was_first_told(store):
    assert open_run(store, config()).corpus == ""
    opened = open_run(store, config(), "a" * 32)
    assert (opened.corpus, opened.changed) == ("a" * 32, {})
    put(store, *opened.state.changes())
    assert open_run(store, config()).corpus == "a" * 32
    with pytest.raises(
        RunError, match=r"another corpus \(digest aaaaaaaa, design\.corpus or tools\.settings has bbbbbbbb now\)"
    ):
        open_run(store, config(), "b" * 32)


def test_the_number_of_slots_in_the_statistics_may_change_at_a_resume(store):
    world = World(SETTINGS, 7, ACCIDENTS)
    world.run(30.0, keep(store))
    shorter = config("design.active_environments=3")
    statistics = load(store, shorter, SECRET).statistics
    assert statistics.keep_slots == 3


def test_a_damaged_store_is_a_clear_line(tmp_path):
    (tmp_path / "data.mdb").write_bytes(b"not a database" * 1_000)
    with pytest.raises(RunError, match=r"data\.mdb: its head 0 is damaged"):
        open_store(tmp_path, "nosync").__enter__()


def test_counters_of_an_older_service_still_load(store):
    """A record that lacks the newest fields: they take their defaults."""
    store.commit([("meta", b"counters", msgspec.msgpack.encode([12, 3]))])
    counters = store.get("meta", "counters", RunCounters)
    assert (counters.jobs, counters.round, counters.trained) == (12, 3, 0)


def test_a_program_that_was_admitted_before_forms_were_kept_reads_the_inside(store):
    store.commit([("sources", b"e000000", msgspec.msgpack.encode(["class LampEnv: ...", "pull", "Three levers."]))])
    source = store.get("sources", "e000000", Source)
    assert (source.hint, source.reads, source.single_turn) == ("pull", "inside", False)


def test_an_environment_that_was_admitted_before_variants_were_kept_has_none(store):
    *old, _, _ = msgspec.to_builtins(Environment("e", "j", 0, "tides", "AEnv", "d", 1, True, 1, 0.0, 9.0))
    store.commit([("environments", b"e000000", msgspec.msgpack.encode(old))])
    environment = store.get("environments", "e000000", Environment)
    assert (environment.name, environment.setting, environment.variant) == ("AEnv", "", "")


def test_deadlines_of_one_instant_keep_their_order_after_a_restart(tmp_path):
    """The groups of a round have one deadline, and so have environments admitted in one round of the service."""
    settings = config(
        "design.active_environments=6", "design.round_jobs=6", "design.active_skills=3",
        "design.round_deadline_s=240", "play.window_deadline_s=30",
    )  # fmt: skip
    queues = []
    with open_store(tmp_path, "nosync") as store:
        for restarted in (False, True):
            ledger = started(settings)
            jobs = ledger.apply(LeaseDesigns(6, 0.0), "designer/1", 0.0).jobs
            for job in (jobs[4], jobs[2], jobs[0]):  # one of each skill fails
                ledger.apply(rejected(job, 1, last=True), "designer/1", 1.0)
            for job in (jobs[5], jobs[3], jobs[1]):
                ledger.apply(environment(job, 1), "designer/1", 2.0)
            if restarted:
                put(store, *ledger.state.changes())
                ledger = Ledger(load(store, settings, SECRET))
            for play in ledger.apply(LeasePlays(96, 0.0), "agent/1", 3.0).plays:
                if play.id[-3:] < "002":
                    ledger.apply(played(play, float(play.id[-1]), 1), "agent/1", 4.0)
            ledger.tick(40.0, None)
            ledger.tick(settings.design.round_deadline_s, None)
            queues.append([group.id for group in ledger.state.queue.values()])
    assert len(queues[0]) == 6
    assert queues[1] == queues[0]


def test_a_file_that_was_cut_short_is_one_line_and_no_bus_error(kept):
    """Its pages are mapped: to read one that is gone would kill the process."""
    data = kept / "data.mdb"
    os.truncate(data, data.stat().st_size // 2)
    code = """
import sys
from pathlib import Path
from replay.store import open_reader, open_store
from spade.errors import RunError
for opened in open_reader(Path(sys.argv[1])), open_store(Path(sys.argv[1]), "sync"):
    try:
        with opened as store:
            sum(len(body) for table in ("jobs", "plays", "trajectories") for _, body in store.each(table))
    except RunError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code, str(data.parent)], capture_output=True, text=True, timeout=120)
    line = rf"{data.parent}: .+: page [0-9]+ is past the end of the file, which has [0-9]+ bytes.*from a copy"
    assert (done.returncode, done.stderr) == (0, "")
    assert len(re.findall(line, done.stdout)) == len(done.stdout.splitlines()) == 2


def pages_in_bytes(folder):
    with lmdb.open(str(folder), readonly=True) as environment:
        return environment.info()["last_pgno"] * environment.stat()["psize"]


def test_a_file_whose_free_pages_were_never_written_is_whole(tmp_path):
    """Pages that one commit took and gave back end the file on paper alone."""
    with open_store(tmp_path, "nosync") as store:
        for _ in range(3):  # what these free, the large commit takes for all but its large record
            put(store, ("rejects", "a", reject("x")))
        put(store, ("rejects", "b", reject("x" * 1_000_000)), ("rejects", "b", None))
    assert (tmp_path / "data.mdb").stat().st_size < 1_000_000 < pages_in_bytes(tmp_path)
    for opened in open_reader(tmp_path), open_store(tmp_path, "nosync"):
        with opened as store:
            assert [key for key, _ in store.each("rejects")] == ["a"]
