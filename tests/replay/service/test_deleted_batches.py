"""Batches that retention deleted, or deletes."""

import pytest

from replay.inspect.contents import read_contents
from replay.inspect.verify import find_problems
from replay.ledger.records import PlayRecord
from replay.store import open_reader, open_store
from replay.store.past_batches import explain_dropped
from spade import protocol
from spade.errors import RefusedError
from tests.peers import changed
from tests.replay.feeding import publish, train
from tests.replay.service.running import SETTINGS, ByHand, joined, serving


def retaining(size):
    """Settings under which all but the last batch may go once trajectories take more than `size` bytes."""
    learner = {"checkpoint_every": 1, "keep_checkpoints": 1}
    return changed(SETTINGS, learner=learner, replay={"retain_bytes": size})


async def retire(replay, steps):
    """Train so many steps, with a checkpoint of each."""
    await publish(replay)
    for step in range(1, steps + 1):
        await train(replay, step)
        await replay.checkpointed(step)


async def test_a_batch_that_is_asked_for_as_retention_deletes_it_is_refused(tmp_path):
    async with serving(tmp_path, retaining(0)), joined(tmp_path, settings=retaining(0)) as replay:
        await retire(replay, 2)
    with open_store(tmp_path / "store", "nosync") as store:
        assert await ByHand(tmp_path, store, retaining(1)).ask(protocol.TakeBatch(1, 0.0)) == protocol.Refused(
            explain_dropped(1)
        )


async def test_a_batch_that_retention_deleted_is_refused_and_later_ones_are_not(tmp_path):
    settings = retaining(1)
    async with serving(tmp_path, settings), joined(tmp_path, settings=settings) as replay:
        await retire(replay, 3)
        for _ in range(3):  # a slice goes with each round
            await replay.status()
        for step in (1, 2):
            with pytest.raises(RefusedError, match=f"step {step} were deleted by retention"):
                await replay.take_batch(step, 5.0)
        assert isinstance(await replay.take_batch(3, 5.0), protocol.Batch)
    with open_reader(tmp_path / "store") as store:
        assert len(store.scan("trajectories", protocol.Trajectory)) < len(store.scan("plays", PlayRecord))
        assert find_problems(read_contents(store)) == []
