"""A run of so many learner steps: exactly these, with the last policy published and kept, whatever is killed."""

import os
import signal

import pytest
import trio

from learner import checkpoint
from replay.ledger.records import RunCounters
from replay.store import open_reader
from spade import config
from tests.learner.fed_learner import SMALL, running
from tests.peers import pid_of

STEPS = 4


@pytest.mark.slow
async def test_killed_at_step_three_it_ends_after_exactly_four_between_two_publications(tiny_checkpoint, tmp_path):
    sparse = ("learner.publish_every=3", "learner.checkpoint_every=100")
    settings = config.load("nano", (*SMALL, *sparse, f"model.path={tiny_checkpoint}", f"limits.steps={STEPS}"))
    async with running(settings, tmp_path) as (supervisor, feeder), trio.open_nursery() as nursery:
        nursery.start_soon(feeder.design, 100)
        await feeder.until(3)
        os.kill(pid_of(supervisor, "learner"), signal.SIGKILL)
        while not (pulse := feeder.client.pulse).finished:
            await feeder.client.wait_pulse()
        nursery.cancel_scope.cancel()
    assert pulse.finished == "4 learner steps were made (limits.steps = 4)"
    assert pulse.weights.step == STEPS
    assert checkpoint.find_newest(tmp_path / "checkpoints")[1].step == STEPS
    assert (tmp_path / "weights" / pulse.weights.digest).is_dir()
    with open_reader(tmp_path / "store") as store:
        assert store.get("meta", "counters", RunCounters).taken_step == STEPS
    assert (tmp_path / "metrics.jsonl").read_text().count('"event":"finish"') == 1
