"""Trajectories that were trained, by the store."""

from replay.inspect.plays import count_trained
from replay.ledger.records import RunCounters
from replay.store import open_reader
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
