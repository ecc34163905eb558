"""Sharded checkpoints of ranks: each writes its own part, and any number of them at any stage goes on from it."""

import os
import signal
import threading
import time
from collections import deque
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from learner import checkpoint
from learner.backends import ranks as ranks_module
from learner.backends import state
from learner.backends.torch import TorchBackend
from spade import config
from spade.errors import RunError, SpadeError
from spade.policy.model import load
from spade.processes.child import Life
from spade.protocol import StepMetrics
from tests.deepspeed.backends import QUICK, alone, deepspeed, opened, tensors, train
from tests.deepspeed.test_processes import rank_of
from tests.peers import alone as claimed

SHARDED = "learner.checkpoint=sharded"
CPU = torch.device("cpu")
SOON_S = 120.0


class Brought(TorchDispatchMode):
    """Counts the bytes of parameters and optimiser state in the collectives of this process."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        if function.namespace == "c10d":
            found = [one for one in tree_leaves((arguments, options)) if isinstance(one, torch.Tensor)]
            # Ranks also tell each other what they will write, in bytes and float64.
            self.bytes += sum(one.nbytes for one in found if one.dtype in (torch.float32, torch.bfloat16))
        return function(*arguments, **(options or {}))


def brought(work):
    """The bytes that collectives brought for `work`."""
    with Brought() as counted:
        work()
    return counted.bytes


def moved(folder, settings, after, out):
    """Go on from `after` and write a sharded state to `out`.

    Returns the bytes brought for that and for a gathering, and the parameters that would be published.
    """
    with opened(folder, *settings, SHARDED) as backend:
        backend.load(after)
        out.mkdir()
        spread = brought(lambda: backend.save(out))
        gathered = brought(lambda: deque(backend._gather(optimizer=True), maxlen=0))
        return spread, gathered, {name: one.detach() for name, one in backend.model.named_parameters()}


def whole_again(folder, after, out):
    """The tensors of a state, by way of the torch backend."""
    settings = config.load("nano", (*QUICK, f"model.path={folder}"))
    backend = TorchBackend(load(folder, dtype="float32", device=CPU), settings)
    if after is None:
        return backend
    backend.load(after)
    out.mkdir()
    backend.save(out)
    return tensors(out)


LIVES = {
    "three of stage 3": deepspeed(3, 3, "model.dtype=bfloat16"),
    "two of stage 1": deepspeed(1, 2, "model.dtype=bfloat16"),
    "two of stage 2": deepspeed(2, 2, "learner.offload=optimizer"),
    "two of stage 0": deepspeed(0, 2),
}


def test_a_state_goes_through_any_ranks_and_stages_to_the_bit(policy, checkpoint_folder, tmp_path):
    first, after = whole_again(checkpoint_folder, None, None), tmp_path / "whole"
    train(first, policy, range(1, 3))
    after.mkdir()
    first.save(after)
    expected = tensors(after)
    count = sum(value.numel() for name, value in expected.items() if name.startswith("parameter."))
    for name, settings in LIVES.items():
        out = tmp_path / name
        spread, gathered, published = alone(moved, checkpoint_folder, settings, after, out)
        assert all(torch.equal(one, expected[f"parameter.{each}"].to(one.dtype)) for each, one in published.items())
        assert spread == 0, "a rank got parameters or moments of another"
        assert gathered >= 12 * count or "learner.zero_stage=0" in settings
        ranks = int(settings[2].partition("=")[2])
        written = [path.stat().st_size for path in sorted((out / state.SHARDS).iterdir())]
        assert len(written) == ranks
        assert max(written) < 12 * count / ranks * 1.5
        found = whole_again(checkpoint_folder, out, tmp_path / f"{name} again")
        assert found.keys() == expected.keys()
        assert all(torch.equal(value, expected[each]) for each, value in found.items() if each != "random"), name
        after = out


def ended(folder, settings, policy, out):
    """The errors of a save in which a rank is killed, or which it cannot see; the newest checkpoint after the first."""
    with patch.object(ranks_module, "end_within"), opened(folder, *settings, SHARDED, lives=Life) as backend:
        [metrics] = train(backend, policy, range(1, 2))
        checkpoint.write(out, 1, metrics, backend.save, claimed)

        def stuck(draft):
            (draft / state.SHARDS).mkdir()
            # Opened for writing, it waits for a reader.
            os.mkfifo(draft / state.SHARDS / "shard-00002-model-00001-of-00001.safetensors")
            ours = draft / state.SHARDS / "shard-00001-model-00001-of-00001.safetensors"

            def kill():
                until = time.monotonic() + SOON_S
                while not ours.exists() and time.monotonic() < until:
                    time.sleep(0.01)
                os.kill(rank_of(os.getpid()), signal.SIGKILL)

            killer = threading.Thread(target=kill)
            killer.start()
            try:
                return backend.save(draft)
            finally:
                killer.join()

        with pytest.raises(SpadeError) as raised:
            checkpoint.write(out, 2, StepMetrics(), stuck, claimed)
        return str(raised.value), checkpoint.find_newest(out)[1].step, sorted(os.listdir(out))


def test_a_rank_that_is_killed_while_it_writes_leaves_the_checkpoint_before(policy, checkpoint_folder, tmp_path):
    line, step, left = alone(ended, checkpoint_folder, deepspeed(2, 2), policy, tmp_path / "checkpoints")
    assert line == "learner-1: is gone; all ranks begin again at the checkpoint"
    assert step == 1
    assert left == ["step-1"]


def unseen(folder, settings, out):
    """The error of a save into a folder that only this process sees by its path, and of a load from there."""
    with patch.object(ranks_module, "end_within"), opened(folder, *settings, SHARDED) as backend:
        (out / "draft").mkdir(parents=True)
        ours = os.open(out, os.O_RDONLY)
        with pytest.raises(RunError) as raised:
            backend.save(Path(f"/proc/self/fd/{ours}") / "draft")
        return str(raised.value), os.listdir(out / "draft")


def test_a_rank_that_does_not_see_the_run_directory_says_so(checkpoint_folder, tmp_path):
    line, left = alone(unseen, checkpoint_folder, deepspeed(3, 2), tmp_path)
    assert line.startswith("learner-1: /proc/self/fd/")
    assert "is not seen by this rank" in line
    assert "put the run directory on a file system that all ranks share" in line
    assert left == []
