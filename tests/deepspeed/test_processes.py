"""The learner and its ranks as processes: one that is killed, and the others, which begin again with it."""

import os
import signal
from contextlib import nullcontext, suppress
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
import trio
from transformers import AutoModelForCausalLM

from learner import checkpoint
from learner.backends import ranks as ranks_module
from spade import config
from spade.errors import SpadeError
from spade.processes.child import Life
from tests.deepspeed.backends import alone, deepspeed, opened, train
from tests.learner.fed_learner import SMALL, running
from tests.peers import pid_of


def rank_of(pid):
    """The process id of rank 1 of a backend in this process."""
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for one in path.read_text().split():
            if b"learner-1" in Path(f"/proc/{one}/cmdline").read_bytes():
                return int(one)
    raise AssertionError(pid)


def lines_of_loss(folder, settings, policy, number):
    """The error of two steps before which rank 1 was sent a signal."""
    # It would end this process, in which nothing is stuck.
    with patch.object(ranks_module, "end_within"), opened(folder, *settings, lives=Life) as backend:
        train(backend, policy, range(1, 2))
        rank = rank_of(os.getpid())
        os.kill(rank, number)
        ranks = backend._ranks

        def stuck(*_):
            with ranks._news:
                ranks._news.wait_for(lambda: ranks._lost)
            raise RuntimeError("a collective")

        # A collective would wait for a rank that is stopped.
        waits = nullcontext() if number == signal.SIGKILL else patch.object(backend._shard, "train", stuck)
        try:
            lines = []
            with waits:
                for _ in range(2):
                    with pytest.raises(SpadeError) as raised:
                        train(backend, policy, range(2, 3))
                    lines.append(str(raised.value))
            return lines
        finally:
            with suppress(ProcessLookupError):
                os.kill(rank, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_loss_of_a_rank_ends_the_step_with_one_line(policy, checkpoint_folder, number):
    settings = deepspeed(2, 2, "bus.silence_s=5")
    for line in alone(lines_of_loss, checkpoint_folder, settings, policy, number):
        assert line == "learner-1: is gone; all ranks begin again at the checkpoint"


def states(supervisor):
    """(restarts, state) of each rank."""
    return [(one.restarts, one.state) for one in supervisor.processes() if one.role == "learner"]


async def test_all_ranks_begin_again_at_the_checkpoint_whichever_is_killed_and_leave_together(
    tiny_checkpoint, tmp_path
):
    overrides = deepspeed(3, 2, *SMALL, f"model.path={tiny_checkpoint}", "bus.silence_s=20")
    settings = config.load("nano", overrides)
    with trio.fail_after(900):
        async with running(settings, tmp_path) as (supervisor, feeder):
            await feeder.design(9)
            await feeder.until(3)
            os.kill(pid_of(supervisor, "learner-1"), signal.SIGKILL)
            await feeder.design(9)
            weights = await feeder.until(6)
            assert states(supervisor) == [(1, "ready")] * 2
            (killed,) = (one for one in supervisor.processes() if one.name == "learner-1")
            assert killed.detail == "killed by SIGKILL"

            os.kill(pid_of(supervisor, "learner"), signal.SIGKILL)
            await feeder.design(3)
            weights = await feeder.until(7)
            assert "resumed at step 4 " in (tmp_path / "logs" / "learner.log").read_text()
            assert states(supervisor) == [(2, "ready")] * 2

            async with trio.open_nursery() as nursery:
                for name in ("learner-1", "learner"):
                    nursery.start_soon(supervisor.stop, name)
            assert [one.detail for one in supervisor.processes() if one.role == "learner"] == ["left in order"] * 2
            folder, manifest = checkpoint.find_newest(tmp_path / "checkpoints")
            assert manifest.step == weights.step == 7
            model = AutoModelForCausalLM.from_pretrained(folder / "model")
            with torch.no_grad():
                assert model(torch.arange(9)[None]).logits.isfinite().all()
