"""Trajectories that were trained, and the newest play, by the store."""

import msgspec

from replay.inspect.plays import count_trained, read_newest_play
from replay.ledger.keys import make_chunk_id, play_id
from replay.ledger.records import RunCounters
from replay.store import open_reader, open_store
from tests.replay.kept_world import keep_world


def test_trained_trajectories_are_those_of_the_batches_up_to_a_step(tmp_path):
    keep_world(tmp_path / "store")
    with open_reader(tmp_path / "store") as store:
        counters = store.get("meta", "counters", RunCounters)
    last = counters.taken_step
    counts = [count_trained(tmp_path / "store", step) for step in range(last + 1)]
    assert counts[0] == (0, 0)
    assert counts[-1] == (counters.trained - counters.designer_trained, counters.designer_trained)
    assert min(counts[-1]) > 0
    assert [sum(count) for count in counts] == sorted({sum(count) for count in counts})


def test_the_newest_play_is_of_the_newest_chunk(tmp_path):
    keep_world(tmp_path / "store")
    kept = read_newest_play(tmp_path / "store")
    for chunk in (9, 10):
        id = play_id(make_chunk_id(kept.environment.id, chunk), False, 0)
        record = msgspec.structs.replace(kept.record, id=id, chunk=chunk)
        with open_store(tmp_path / "store", "sync") as store:
            store.commit(store.encode([("plays", id, record), ("trajectories", id, kept.trajectory)]))
        assert read_newest_play(tmp_path / "store").record.id == id
