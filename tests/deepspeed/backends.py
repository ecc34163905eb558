"""Backends over the tests' policy, and what is compared of them."""

import multiprocessing
import tempfile
import threading
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import torch
import trio
from safetensors.torch import load_file

from learner.backends import opening, state
from learner.backends.rank import serve_rank
from spade import config
from spade.errors import SpadeError
from spade.processes.child import Life
from spade.processes.supervise import supervise
from spade.protocol import Batch

QUICK = (
    "learner.designer_weight_max=32.0", "learner.lr=1e-3", "learner.microbatch_tokens=40", "learner.weight_decay=0.1",
    "learner.threads=1", "learner.device=cpu",
)  # fmt: skip
RANKS = ("bus.silence_s=60", "supervise.drain_s=60")  # a busy machine lets them wait for long
STEPS = range(1, 6)


def alone(work, *arguments):
    """`work(*arguments)` in a fork of a process that has imported what takes long: DeepSpeed allows one backend."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            "learner.backends.opening", "tests.deepspeed.backends", "transformers.models.qwen3.modeling_qwen3",
            "deepspeed.runtime.superoffload.superoffload_stage3", "functorch.compile",
        ]
    )  # fmt: skip
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *arguments).result(timeout=600)


class ForkedRank:
    """A further rank as a fork of this process, in place of `spade.processes.child.Life`."""

    left = "left in order"

    def __init__(self):
        launches, self._launches = multiprocessing.Pipe(duplex=False)
        self._process = multiprocessing.get_context("fork").Process(target=run_rank, args=(launches,), daemon=True)
        self._process.start()

    def launched(self, launch):
        self._launches.send(launch)
        return self

    async def run(self, told):
        told.on_start(self._process.pid, "")
        told.on_ready()
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(self._process.join, 60)
            assert self._process.exitcode == 0, "it does not leave with the first rank"


def run_rank(launches):
    """Serve as a rank until the first one leaves."""
    launch = launches.recv()
    try:
        trio.run(serve_rank, launch, config.load(launch.config), lambda: None)
    except* SpadeError:
        pass


def opened(folder, *overrides, lives=None):
    """The backend of a run on the model in `folder`. Its ranks are forked now, while this process has one thread."""
    settings = config.load("nano", (*QUICK, *RANKS, f"model.path={folder}", *overrides))
    forks = [] if lives else [ForkedRank() for _ in range(1, settings.learner.processes)]
    return hosted(settings, lives or (lambda module, launch, *_: forks.pop().launched(launch)))


@contextmanager
def hosted(settings, lives=Life):
    """A backend whose ranks are served by another thread than this one, as in a learner."""
    found, over = Future(), threading.Event()

    async def host(home):
        with patch.object(opening, "supervise", partial(supervise, lives=lives)):
            async with opening.open_outside_run(settings, None, home) as (backend, _):
                found.set_result(backend)
                await trio.to_thread.run_sync(over.wait, abandon_on_cancel=True)

    def serve():
        try:
            with tempfile.TemporaryDirectory() as home:
                trio.run(host, Path(home))
        except BaseException as error:
            if not found.done():
                found.set_exception(error)

    served = threading.Thread(target=serve)
    served.start()
    try:
        yield found.result(timeout=600)
    finally:
        over.set()
        served.join()


def life(folder, overrides, policy, steps, out, after=None):
    """Train `steps` from the state in `after`, leave the state in `out`; the metrics."""
    with opened(folder, *overrides) as backend:
        if after is not None:
            backend.load(after)
        metrics = train(backend, policy, steps)
        out.mkdir()
        backend.save(out)
        return metrics


def tensors(folder):
    """Everything a state holds, by name; float32, on the CPU."""
    return load_file(folder / state.FILE)


def deepspeed(stage, processes=1, *overrides):
    """Settings of the DeepSpeed backend."""
    given = {"backend": "deepspeed", "zero_stage": stage, "processes": processes}
    return (*(f"learner.{name}={value}" for name, value in given.items()), *overrides)


def train(backend, policy, steps=STEPS):
    """Metrics of the steps on batches that are functions of their number."""
    return [backend.train(Batch(step, 1, policy.groups(step, off=0.5))) for step in steps]


def difference(found, expected, kind="parameter"):
    """Norm of the difference over the norm of what was expected, of all tensors of a kind together."""
    names = [name for name in expected if name.startswith(f"{kind}.")]
    assert names
    assert {name for name in found if name.startswith(f"{kind}.")} == set(names)
    found = torch.cat([found[name].flatten() for name in names])
    expected = torch.cat([expected[name].flatten() for name in names])
    return ((found - expected).norm() / expected.norm()).item()
