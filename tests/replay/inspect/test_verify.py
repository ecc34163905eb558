"""`verify` over real stores: nothing to say of a sound one, and the name of whatever was broken."""

import dataclasses

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.inspect.contents import read_contents
from replay.inspect.verify import find_problems
from replay.ledger import windows
from replay.ledger.records import (
    BatchRecord,
    Environment,
    GroupRecord,
    Job,
    MemoryEntry,
    PlayRecord,
    Publication,
    RunCounters,
)
from replay.ledger.reward import score_of
from replay.store import open_reader, open_store
from replay.store.load import load
from spade.codec import pack_floats
from tests.replay.kept_world import ACCIDENTS, SETTINGS, keep_world
from tests.replay.replay_world import SECRET, Pace, trajectory


def found(folder):
    with open_reader(folder) as store:
        return find_problems(read_contents(store))


@settings(max_examples=8)
@given(st.integers(0, 1_000), st.floats(1.0, 60.0), st.sampled_from([Pace(), ACCIDENTS]))
def test_a_sound_store_has_no_problem(tmp_path_factory, seed, until, pace):
    folder = tmp_path_factory.mktemp("store")
    keep_world(folder, seed, until, SETTINGS, pace)
    assert found(folder) == []


@pytest.mark.parametrize("setting", ["[learner]\ngone = 1\n", "= no TOML"])
def test_settings_of_another_version_are_one_line(untouched, setting):
    with open_reader(untouched) as store:
        contents = read_contents(store)
    header = msgspec.structs.replace(contents.header, settings=setting)
    (line,) = find_problems(dataclasses.replace(contents, header=header))
    assert line.startswith("meta run: its settings are not of this version (")


def edit(store, table, kind, chosen, **changes):
    """Change one record of those `chosen` agrees to."""
    key, record = next((k, r) for k, d in store.each(table) if chosen(r := msgspec.msgpack.decode(d, type=kind)))
    store.commit(store.encode([(table, key, msgspec.structs.replace(record, **changes))]))


def drop(store, table, kind, chosen=lambda record: True):
    key = next(k for k, data in store.each(table) if chosen(msgspec.msgpack.decode(data, type=kind)))
    store.commit(store.encode([(table, key, None)]))


def finished(play):
    return play.state == "finished"


def closed(environment):
    return environment.state == "closed" and environment.score.regret is not None


def rescore(store):
    environment = next(e for e in store.scan("environments", Environment) if closed(e))
    environment.score.regret = 0.987
    store.commit(store.encode([("environments", environment.id, environment)]))


def train_twice(store):
    batch = store.scan("batches", BatchRecord)[-1]
    first = store.scan("batches", BatchRecord)[0]
    edit(store, "batches", BatchRecord, lambda b: b.step == batch.step, groups=(*batch.groups, first.groups[0]))


def cut(store):
    key, data = next(store.each("trajectories"))
    store.commit([("trajectories", key.encode(), data[:-20] + data[-10:])])


def rot(folder):
    """One bit of a log-probability of a play turns over on the disk; the play's id."""
    unlike_others = pack_floats([-0.25, -0.125])
    with open_store(folder, "nosync") as store:
        play = next(play for play in store.scan("plays", PlayRecord) if finished(play))
        said = msgspec.structs.replace(trajectory(play.version), logprobs=unlike_others)
        put(("trajectories", play.id, said))(store)
    path = folder / "data.mdb"
    path.write_bytes(path.read_bytes().replace(unlike_others, pack_floats([-0.25, -0.12500001])))
    return play.id


def put(*changes):
    return lambda store: store.commit(store.encode(changes))


def lose_a_trajectory(store):
    play = next(play for play in store.scan("plays", PlayRecord) if finished(play))
    put(("trajectories", play.id, None))(store)


def lose_a_program(store):
    put(("sources", store.scan("environments", Environment)[0].id, None))(store)


def misplace_a_job(store):
    put(("jobs", "j000000", store.get("jobs", "j000001", Job)))(store)


def newest_but_one(store):
    newest = max(record.number for record in store.scan("memory", MemoryEntry))
    return lambda record: record.number == newest - 1


def miscount(name, more):
    def damage(store):
        counters = store.get("meta", "counters", RunCounters)
        setattr(counters, name, getattr(counters, name) + more)
        put(("meta", "counters", counters))(store)

    return damage


def misjudge(**changes):
    """Damage a score by which a void or luck was counted."""

    def damage(store):
        environment = next(e for e in store.scan("environments", Environment) if closed(e))
        changed = msgspec.structs.replace(environment.score, **changes)
        put(("environments", environment.id, msgspec.structs.replace(environment, score=changed)))(store)

    return damage


DAMAGE = {
    "a play's trajectory is gone": (lose_a_trajectory, "has no trajectory"),
    "a trajectory of nobody": (put(("trajectories", "e999999-0u000", trajectory(1))), "belongs to no play or design"),
    "a version that never was": (put(("trajectories", "j000000", trajectory(999))), "never published"),
    "bytes cut out": (cut, "cannot be decoded"),
    "a play is gone": (lambda s: drop(s, "plays", PlayRecord, finished), "were counted"),
    "another return": (lambda s: edit(s, "plays", PlayRecord, finished, episode_return=0.123), "its plays say"),
    "a return out of range": (lambda s: edit(s, "plays", PlayRecord, finished, episode_return=7.0), "return is 7.0"),
    "another score": (rescore, "its regret is 0.987"),
    "another least regret": (misjudge(least_regret=0.987), "its least regret is 0.987"),
    "luck without an audit": (misjudge(luck=3), "3 lost plays count as void, its plays and its audit do not allow it"),
    "another reward": (misjudge(reward=0.987), "its designer reward is 0.987"),
    "an environment is gone": (lambda s: drop(s, "environments", Environment), "environments: "),
    "a job is gone": (lambda s: drop(s, "jobs", Job), "jobs: "),
    "a batch is gone": (lambda s: drop(s, "batches", BatchRecord), "records are not those of"),
    "a trajectory trained twice": (train_twice, "is in 2 trainable groups"),
    "a group of the queue is gone": (lambda s: drop(s, "queue", GroupRecord), "became trainable"),
    "a version is gone": (lambda s: drop(s, "publications", Publication), "publications: "),
    "a gap in the memory": (lambda s: drop(s, "memory", MemoryEntry, newest_but_one(s)), "memory: "),
    "a program is gone": (lose_a_program, "program is missing"),
    "a record under another's name": (misplace_a_job, "holds the record of j000001"),
    "another count": (miscount("wasted", 10_000), " wasted"),
    "another count of one role": (miscount("designer_wasted", 1), "1 wasted"),
    "the run's header is gone": (put(("meta", "run", None)), "meta run: is missing"),
}


def test_a_window_of_a_run_that_left_voids_out_is_verified_by_the_rules_of_its_time(tmp_path, monkeypatch):
    """Its score ends before `luck`, as it was written then, and it was paid for its finished plays alone."""

    def score_then(plays, luck, *others):
        score = score_of([play for play in plays if play.state == "finished"], 0, *others)
        return msgspec.structs.replace(
            score, voids=sum(play.state == "void" for play in plays), luck=None, least_regret=None
        )

    monkeypatch.setattr(windows, "score_of", score_then)
    keep_world(tmp_path, 3, 60.0, SETTINGS, ACCIDENTS)
    with open_reader(tmp_path) as store:
        contents = read_contents(store)
    for record in contents.memory.values():
        record.regret = contents.environments[record.environment].score.regret
    assert find_problems(contents) == []
    scores = [each.score for each in contents.environments.values() if each.score and each.state == "closed"]
    for score in scores:
        score.luck, score.least_regret = 0, score.regret
    wrong = [line for line in find_problems(contents) if "least regret" in line or "designer reward" in line]
    assert 0 < len(wrong) <= sum(score.voids > 0 for score in scores)


def test_an_audit_that_an_earlier_version_called_late_counts_as_left_out(tmp_path):
    keep_world(tmp_path, 4, 60.0, SETTINGS)
    with open_reader(tmp_path) as store:
        contents = read_contents(store)
    environment = next(each for each in contents.environments.values() if each.audit and each.audit.state == "passed")
    environment.audit.state = "late"
    contents.counters.audits_left_out += 1
    with open_store(tmp_path, "nosync") as store:
        changes = [("environments", environment.id, environment), ("meta", "counters", contents.counters)]
        store.commit(store.encode(changes))
    assert found(tmp_path) == []
    with open_reader(tmp_path) as store:
        load(store, SETTINGS, SECRET)


def test_a_flipped_bit_in_a_log_probability_is_named(kept):
    assert found(kept) == []
    play = rot(kept)
    assert found(kept) == [f"trajectories {play}: its bytes are not those that were committed (CRC-32)"]


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named(kept, name):
    damage, says = DAMAGE[name]
    with open_store(kept, "nosync") as store:
        damage(store)
    lines = found(kept)
    assert any(says in line for line in lines), lines
