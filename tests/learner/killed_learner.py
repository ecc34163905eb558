"""A learner's steps and checkpoints as lives that are killed: the real backend, the real files, SIGKILL.

`python -m tests.learner.killed_learner MODEL FOLDER` prints a JSON of what became of them. Lives are forked from one
process, so that a life costs its work and not its imports.
"""

import copy
import gc
import hashlib
import itertools
import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

import trio
from safetensors import safe_open

from learner import checkpoint, weights
from learner.backends import state
from learner.backends.opening import open_backend
from learner.backends.torch import TorchBackend
from learner.claim import Claim
from learner.train import Learner
from learner.writer import Work, Writer
from spade import config
from spade.protocol import Batch, LifeNumber
from spade.transport.pump import run_in_background
from tests.learner.conftest import Policy
from tests.learner.told_replay import Replay

STEPS, KILLS = 6, 5


def live(settings, batches, run, end):
    """From the newest checkpoint to step `end`, a checkpoint every step."""
    backend, metrics = open_backend(settings, checkpoint.find_newest(run / "checkpoints"))
    replay = Replay(batches[:end], run)
    claim = Claim(run / "checkpoints", "learner", LifeNumber())
    learner = Learner(backend, metrics, replay, settings, run, claim)

    async def until_the_end():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(learner.live)
            await replay.done.wait()
            await learner._writer.settle()
            nursery.cancel_scope.cancel()

    trio.run(until_the_end)


def write_beside(backend, metrics, settings, run, batch):
    """Write what a step leaves, as its learner does, while the step of `batch` is trained."""
    claim = Claim(run / "checkpoints", "learner", LifeNumber())
    writer = Writer(Replay([], run), settings, run, claim, backend.step - 1)
    policy = weights.PolicyCopy(backend.model, "float32")
    policy.take(backend.model)
    work = Work(backend.step, metrics, policy, publish=True, keep=True, save=backend.freeze())

    async def beside():
        async with run_in_background(writer.run):
            await writer.hand_over(lambda: work)
            await trio.to_thread.run_sync(backend.train, batch)
            await writer.settle()

    trio.run(beside)


def forked(work):
    """The process id of a child that does `work` and nothing else."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    finally:
        os._exit(code)


def ended(child):
    """True if it came to its end; False if it was killed."""
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "a life failed"
    return not os.WIFSIGNALED(status)


def killed_at_touch(number):
    """Arm this process: SIGKILL before its `number`-th opening, renaming, linking or removing of a file."""
    count = itertools.count(1)
    touching = {"open", "os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "shutil.rmtree"}

    def hook(event, arguments):
        if event in touching and next(count) == number:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def digest(run):
    """Of every bit a learner goes on from; not of the file, whose header has no fixed order."""
    found = checkpoint.find_newest(run / "checkpoints")
    hashed = hashlib.blake2b(digest_size=16)
    with safe_open(found[0] / state.FILE, framework="np") as file:
        hashed.update(repr(sorted(file.metadata().items())).encode())
        for name in sorted(file.keys()):
            tensor = file.get_tensor(name)
            hashed.update(f"{name} {tensor.dtype} {tensor.shape}".encode() + tensor.tobytes())
    return hashed.hexdigest()


def main():
    model, folder = Path(sys.argv[1]), Path(sys.argv[2])
    settings = config.load("nano", (
        f"model.path={model}", "learner.lr=1e-3", "learner.microbatch_tokens=60", "learner.checkpoint_every=1",
        "learner.keep_checkpoints=2",
    ))  # fmt: skip
    TorchBackend.copies_state = True  # checkpoints are written beside a step, as on a GPU
    policy = Policy(open_backend(settings, None)[0].model)
    batches = [Batch(step, 1, policy.groups(step, off=0.5)) for step in range(1, STEPS + 2)]

    gc.freeze()  # else a collection in a life would copy the pages of all that is imported here

    straight = folder / "straight"
    started = time.monotonic()
    assert ended(forked(lambda: live(settings, batches, straight, STEPS)))
    took = time.monotonic() - started

    run = folder / "random"
    kills = killed_at_random(lambda: live(settings, batches, run, STEPS), run, took)
    steps, digests, drafts = killed_at_every_touch(settings, batches, folder)
    print(
        json.dumps(
            {
                "straight": digest(straight), "random": digest(run), "kills": kills,
                "steps": steps, "digests": digests, "drafts": drafts,
            }
        )
    )  # fmt: skip


def killed_at_random(life, run, took):
    """Lives of which up to `KILLS` are killed at random instants; the last comes to its end. How many were killed.

    `took`: a whole life, s. Where that one was slow and the first comes to its end, all begins anew with shorter lives.
    """
    rng, kills = random.Random(1), 0
    while kills < KILLS:
        child = forked(life)
        time.sleep(rng.uniform(0, took / 2))
        os.kill(child, signal.SIGKILL)
        if not ended(child):
            kills += 1
        elif kills:
            return kills
        else:
            shutil.rmtree(run)
            took /= 2
    assert ended(forked(life))
    return kills


def killed_at_every_touch(settings, batches, folder):
    """A learner that writes beside its last step, killed at its first touch of a file from there on, its second, …

    By touch: the step of the checkpoint it would go on from, that one's digest, and how many drafts it left.
    """
    before = folder / "before"
    assert ended(forked(lambda: live(settings, batches, before, STEPS - 1)))
    backend, _ = open_backend(settings, checkpoint.find_newest(before / "checkpoints"))
    metrics = backend.train(batches[STEPS - 1])
    # It imports modules, whose files no life should touch.
    write_beside(copy.deepcopy(backend), metrics, settings, folder / "once", batches[STEPS])
    steps, digests, drafts = [], [], []
    for number in itertools.count(1):
        run = folder / f"touch-{number}"
        shutil.copytree(before, run)

        def life(number=number, run=run):
            killed_at_touch(number)
            write_beside(backend, metrics, settings, run, batches[STEPS])

        done = ended(forked(life))
        steps.append(checkpoint.find_newest(run / "checkpoints")[1].step)
        digests.append(digest(run))
        drafts.append(len(list((run / "checkpoints").glob(".draft-*"))))
        shutil.rmtree(run)
        if done:
            return steps, digests, drafts


if __name__ == "__main__":
    main()
