"""Seconds for which a learner computes nothing, because weights and checkpoints are written.

    python -m tests.bench.writing [--rounds 3] [--tokens 1024] [--large 0] [--out writing.json]

A round is a step of the learner on so many tokens, and what it leaves: published weights, and in half of the rounds a
checkpoint. `before` writes between two steps, weights straight from the trained model. `beside` is the learner's
writer, which copies between two steps and writes beside the next one. Both take turns on one model of 100 million
parameters in float32, with the real backend, files, fsync and digests; the replay service answers at once. With
`--large 850` a model of so many million parameters is published too, and a step is a forward pass, since AdamW's state
would not fit a small machine. `cycle`: from the end of a step to the end of the next, without the first one. `peak`:
memory of the process at its highest.
"""

import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import trio

from learner import checkpoint, weights
from learner.backends.torch import TorchBackend
from learner.claim import Claim
from learner.writer import Work, Writer
from spade import codec
from spade.config import Config, load
from spade.disk import link_folder
from spade.policy.model import publish
from spade.policy.model_folder import NANO
from spade.protocol import Batch, Group, LifeNumber, StepMetrics, Trajectory
from spade.transport.pump import run_in_background
from tests.bench.harness import columns, command, conclude, in_turns, medians
from tests.bench.swap import model
from tests.learner.told_replay import Replay
from tests.masks import pack_mask

PLAYS = 4


class Forward:
    """In place of a backend whose optimiser does not fit: a step is a forward pass, and moves one parameter."""

    def __init__(self, made: Any) -> None:
        self.model, self.step = made, 0

    @torch.no_grad()
    def train(self, batch: Batch) -> None:
        for trajectory in batch.groups[0].trajectories:
            self.model(torch.from_numpy(codec.unpack_ids(trajectory.ids).astype(np.int64))[None], use_cache=False)
        next(self.model.parameters()).add_(1e-3)
        self.step = batch.step


def make_batch(step: int, tokens: int) -> Batch:
    """Plays of random tokens, of which the second half was sampled."""
    rng, length = np.random.default_rng(step), tokens // PLAYS
    sampled = length - length // 2

    def play() -> Trajectory:
        ids = codec.pack_ids(rng.integers(1, 8_000, length).tolist())
        mask = pack_mask([place >= length // 2 for place in range(length)])
        return Trajectory(ids, mask, codec.pack_floats([-9.0] * sampled), ((1, sampled),), 1.0)

    rewards = tuple(float(index % 2) for index in range(PLAYS))
    return Batch(step, 1, (Group("a", "agent", rewards, tuple(play() for _ in range(PLAYS))),))


def peak_mb() -> float:
    """The highest memory of this process since `forget_peak`."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1_000


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def write_between(backend: Any, root: Path, save: bool) -> None:
    """As the learner did before it had a writer."""
    backend.model.zero_grad()
    _, published = publish(backend.model, NANO, root / "weights")

    def fill(draft: Path) -> dict[str, str]:
        backend.save(draft)
        link_folder(published, draft / "model")
        return {}

    if save:
        checkpoint.write(root / "checkpoints", backend.step, StepMetrics(), fill, lambda: None)


def copy(backend: Any, policy: weights.PolicyCopy, save: bool) -> Work:
    policy.take(backend.model)
    return Work(backend.step, StepMetrics(), policy, True, False, backend.freeze() if save else None)


async def cycle(
    backend: Any, policy: weights.PolicyCopy | None, settings: Config, tokens: int, save: bool
) -> dict[str, float]:
    """A step, what it leaves, and the next step, until all is on the disk."""
    found: dict[str, float] = {}

    async def timed(name: str, work: Callable[[], Any]) -> None:
        began = time.perf_counter()
        await trio.to_thread.run_sync(work)
        found[name] = time.perf_counter() - began

    def step() -> Any:
        return backend.train(make_batch(backend.step + 1, tokens))

    with tempfile.TemporaryDirectory(dir=".") as folder:
        root = Path(folder)
        writer = Writer(Replay([], root), settings, root, Claim(root / "checkpoints", "learner", LifeNumber()), 0)
        await trio.to_thread.run_sync(step)
        forget_peak()
        began, used = time.perf_counter(), time.process_time()
        async with run_in_background(writer.run):
            if policy is not None:
                await writer.hand_over(partial(copy, backend, policy, save))
            else:
                await trio.to_thread.run_sync(write_between, backend, root, save)
            found["blocked_s"] = time.perf_counter() - began
            await timed("step_s", step)
            stepped = time.perf_counter()
            await writer.settle()  # a step that is shorter than the writing makes the next one wait
            found["late_s"] = time.perf_counter() - stepped
        found["cycle_s"] = time.perf_counter() - began
        found["cpu_s"] = time.process_time() - used
        found["peak_mb"] = peak_mb()
        shutil.rmtree(root / "weights")
    return found


def measure(backend: Any, settings: Config, tokens: int, rounds: int, save: bool) -> dict[str, dict[str, float]]:
    policy = weights.PolicyCopy(backend.model, "float32")
    jobs = {
        name: lambda _, policy=policy: trio.run(cycle, backend, policy, settings, tokens, save)
        for name, policy in (("before", None), ("beside", policy))
    }
    return {name: medians(rows) for name, rows in in_turns(jobs, rounds).items()}


def table(results: dict[str, dict[str, dict[str, float]]]) -> str:
    rows = {
        "blocked, s a step": ("blocked_s", ".2f"), "the next step, s": ("step_s", ".2f"),
        "writing goes on after it, s": ("late_s", ".2f"), "cycle, s": ("cycle_s", ".2f"),
        "processor, s": ("cpu_s", ".2f"), "peak, MB": ("peak_mb", ".0f"),
    }  # fmt: skip
    return "\n".join(f"{name}\n{columns(modes, rows)}\n" for name, modes in results.items())


def main() -> None:
    parser = command(__doc__, rounds=3, tokens=1_024, large=0, out=None)
    arguments = parser.parse_args()
    settings = load("nano", (f"model.path={NANO}", f"learner.microbatch_tokens={arguments.tokens}", "learner.lr=1e-4"))
    results = {}
    if arguments.large:
        large = Forward(model(arguments.large))
        results[f"{arguments.large} M, weights"] = measure(large, settings, arguments.tokens, arguments.rounds, False)
    else:
        backend = TorchBackend(model(100), settings)
        for name, save in (("100 M, weights", False), ("100 M, weights and checkpoint", True)):
            results[name] = measure(backend, settings, arguments.tokens, arguments.rounds, save)
    conclude(arguments.out, results, table(results))


if __name__ == "__main__":
    main()
