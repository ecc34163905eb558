"""The learner and its ranks as processes: one that is killed, and what is left of the others."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
import trio
from transformers import AutoModelForCausalLM

from learner import checkpoint
from learner.backends import deepspeed as backend_module
from spade import config
from spade.errors import SpadeError
from spade.protocol import Batch, Group, Trajectory
from tests.deepspeed.backends import alone, deepspeed, opened, train
from tests.learner.fed_learner import SMALL, running
from tests.peers import pid_of


def ranks(pid):
    """The process ids of a learner's further ranks."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    found = set()
    for path in {children, *threads}:
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread or child that ends meanwhile
            for one in path.read_text().split():
                if b"learner.backends.rank_process" in Path(f"/proc/{one}/cmdline").read_bytes():
                    found.add(int(one))
    return found


def runs(pid):
    """True if it is more than an entry that nobody has read yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids, within_s=240):
    """Wait until none runs any more."""
    deadline = time.monotonic() + within_s
    while any(runs(pid) for pid in pids):
        assert time.monotonic() < deadline, pids
        time.sleep(0.05)


def one_line(folder, settings, policy):
    """The error of a step whose rank was killed before it, and by its watch."""
    with opened(folder, *settings) as backend:
        train(backend, policy, range(1, 2))
        (rank,) = ranks(os.getpid())
        os.kill(rank, signal.SIGKILL)
        lines = []
        for _ in range(2):
            with pytest.raises(SpadeError) as raised:
                train(backend, policy, range(2, 3))
            lines.append(str(raised.value))
        return lines


def test_a_rank_that_is_killed_ends_the_step_with_one_line(policy, checkpoint_folder):
    for line in alone(one_line, checkpoint_folder, deepspeed(2, 2), policy):
        assert line == "learner rank 1: killed by SIGKILL"


def lines_of_silence(folder, settings):
    """The error of a step whose rank was stopped before it: it does not answer; nor does it read a larger batch."""
    small, large = (Trajectory(bytes(4 * tokens), (tokens,), b"", (), 1.0) for tokens in (1, 1 << 22))
    with patch.object(backend_module, "SILENCE_S", 0.2), opened(folder, *settings) as backend:
        (rank,) = ranks(os.getpid())
        os.kill(rank, signal.SIGSTOP)
        os.waitid(os.P_PID, rank, os.WSTOPPED)
        try:
            # Its own part of the step would wait for the rank in a collective.
            with patch.object(backend._shard, "train", return_value=(None, None)):
                lines = []
                for tokens in (small, large):
                    with pytest.raises(SpadeError) as raised:
                        backend.train(Batch(1, 1, (Group("g", "agent", (0.0,), (tokens,)),)))
                    lines.append(str(raised.value))
                return lines
        finally:
            os.kill(rank, signal.SIGKILL)


def test_a_rank_that_is_stopped_ends_the_step_with_one_line(checkpoint_folder):
    for line in alone(lines_of_silence, checkpoint_folder, deepspeed(2, 2)):
        assert line == "learner rank 1: silent for 0.2 s"


async def test_the_learner_outlives_its_ranks_and_they_never_it(tiny_checkpoint, tmp_path):
    overrides = deepspeed(3, 2, *SMALL, f"model.path={tiny_checkpoint}", "supervise.drain_s=60")
    settings = config.load("nano", overrides)
    with trio.fail_after(600):
        async with running(settings, tmp_path) as (supervisor, feeder):
            await feeder.design(9)
            await feeder.until(3)
            first = ranks(pid_of(supervisor, "learner"))
            assert len(first) == 1
            os.kill(next(iter(first)), signal.SIGKILL)
            await feeder.design(9)
            weights = await feeder.until(6)
            log = (tmp_path / "logs" / "learner.log").read_text()
            assert "learner rank 1: killed by SIGKILL" in log

            learner = pid_of(supervisor, "learner")
            second = ranks(learner)
            os.kill(learner, signal.SIGKILL)
            await trio.to_thread.run_sync(gone, second)
            await feeder.design(3)
            weights = await feeder.until(7)
            assert "resumed at step 4 " in (tmp_path / "logs" / "learner.log").read_text()

            third = ranks(pid_of(supervisor, "learner"))
            await supervisor.stop("learner")
            await trio.to_thread.run_sync(gone, third)
            folder, manifest = checkpoint.newest(tmp_path / "checkpoints")
            assert manifest.step == weights.step == 7
            model = AutoModelForCausalLM.from_pretrained(folder / "model")
            with torch.no_grad():
                assert model(torch.arange(9)[None]).logits.isfinite().all()
