"""A learner step on DeepSpeed's processes against the torch backend: one batch, the nano model, the same two cores.

`python -m tests.bench.backends --out backends.json` (minutes). Every set-up holds its backend in a process of its own
and all take their steps in turn, so that what else the machine does falls on all alike.
"""

import multiprocessing
import os
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from statistics import median

import numpy as np

from spade import codec, config
from spade.protocol import Batch, Group, Trajectory
from tests.bench.harness import command, conclude, in_turns
from tests.masks import pack_mask

SETUPS = {
    "torch, 1 thread": ("learner.threads=1",),
    "torch, 2 threads": ("learner.threads=2",),
    "DeepSpeed, 1 process": ("learner.threads=1", "learner.backend=deepspeed"),
    **{
        f"DeepSpeed, 2 processes, ZeRO {stage}": (
            "learner.threads=1", "learner.backend=deepspeed", "learner.processes=2", f"learner.zero_stage={stage}",
        )
        for stage in (0, 1, 2, 3)
    },
}  # fmt: skip
GROUPS, PLAYS = 12, 8
_backend = None
_open = ExitStack()


def batch(step):
    """Plays of 40 to 400 tokens, a third of them sampled, in spans of ten."""
    rng = np.random.default_rng(7)

    def play():
        length = int(np.clip(rng.lognormal(4.8, 0.6), 40, 400))
        mask = [(at // 10) % 3 == 2 for at in range(length - 1)] + [True]
        sampled = sum(mask)
        logprobs = (-rng.exponential(2.0, sampled)).tolist()
        ids = rng.integers(0, 300, length).tolist()
        spans = pack_mask(mask)
        return Trajectory(codec.pack_ids(ids), spans, codec.pack_floats(logprobs), ((1, sampled),), 1.0)

    groups = [
        Group(f"g{index}", "agent", tuple(rng.random(PLAYS).tolist()), tuple(play() for _ in range(PLAYS)))
        for index in range(GROUPS)
    ]
    return Batch(step, 1, tuple(groups))


def begin(overrides):
    """Open the backend of this process, and take one step that does not count."""
    global _backend
    from tests.deepspeed.backends import hosted

    _backend = _open.enter_context(hosted(config.load("nano", overrides)))
    step()


def step():
    """Seconds of one step, its loss, and the peak memory of this process so far, bytes."""
    one = batch(_backend.step + 1)
    started = time.perf_counter()
    metrics = _backend.train(one)
    return time.perf_counter() - started, metrics.loss, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def end():
    """Close it."""
    _open.close()


def main():
    """Print the table; write the JSON."""
    options = command(__doc__, out=None, steps=9).parse_args()
    tokens = sum(member.tokens for group in batch(1).groups for member in group.trajectories)
    context = multiprocessing.get_context("spawn")
    pools = {name: ProcessPoolExecutor(1, mp_context=context) for name in SETUPS}
    for name, pool in pools.items():
        pool.submit(begin, SETUPS[name]).result()
    taken = in_turns(
        {name: lambda _, pool=pool: pool.submit(step).result() for name, pool in pools.items()}, options.steps
    )
    for pool in pools.values():
        pool.submit(end).result()
        pool.shutdown()
    rows = {}
    for name, steps in taken.items():
        step_s, (_, loss, peak) = median(seconds for seconds, *_ in steps), steps[-1]
        rows[name] = {"step_s": step_s, "tokens_per_s": tokens / step_s, "peak_bytes": peak, "last_loss": loss}
    base = rows["torch, 1 thread"]["step_s"]
    lines = [
        f"{GROUPS * PLAYS} plays, {tokens} tokens, median of {options.steps} steps in turn, {os.cpu_count()} cores,",
        f"load {os.getloadavg()[0]:.1f}",
        f"{'':32}{'s a step':>10}{'tokens/s':>10}{'against torch':>15}{'MB, rank 0':>12}{'last loss':>12}",
    ]
    for name, row in rows.items():
        lines.append(
            f"{name:<32}{row['step_s']:>10.3f}{row['tokens_per_s']:>10.0f}{base / row['step_s']:>14.2f}x"
            f"{row['peak_bytes'] / 1e6:>12.0f}{row['last_loss']:>12.6f}"
        )
    conclude(options.out, {"load": os.getloadavg(), "tokens": tokens, "setups": rows}, "\n".join(lines))


if __name__ == "__main__":
    main()
