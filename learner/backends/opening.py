"""Open the backend that the config names, for a learner or for a command outside of a run.

Outside of a run, this module also starts the further ranks.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path

import torch
import trio

from learner import checkpoint
from learner.backends.base import Backend
from learner.backends.deepspeed import DeepSpeedBackend
from learner.backends.meeting import name_of
from learner.backends.ranks import Ranks
from learner.backends.torch import TorchBackend
from learner.models.loaded import load_policy, load_reference
from spade.config import Config, compute_digest, dump
from spade.policy.model import pick_device
from spade.processes.entry import Launch
from spade.processes.gpus import choose_gpus
from spade.processes.sockets import make_temporary_folder
from spade.processes.supervise import supervise
from spade.protocol import Peer, Pulse, Ready, StepMetrics
from spade.transport import serve
from spade.transport.pump import run_in_background

MODULE = "learner.train"

log = logging.getLogger(__name__)


def open_backend(
    config: Config, found: tuple[Path, checkpoint.Manifest] | None, ranks: Ranks | None = None
) -> tuple[Backend, StepMetrics]:
    """Open a backend at the checkpoint `found`, or at model.path if `found` is None.

    `ranks` are the further processes of the backend, if it uses any. Returns the backend and the metrics of its last
    step.
    """
    if config.learner.threads:
        torch.set_num_threads(config.learner.threads)
    backend: Backend
    if config.learner.backend == "deepspeed":
        backend = DeepSpeedBackend(config, ranks or Ranks(config))
    else:
        device = pick_device(config.learner.device)
        backend = TorchBackend(load_policy(config, device), config, load_reference(config, device))
    if found is None:
        return backend, StepMetrics()
    folder, manifest = found
    backend.load(folder)
    log.info("resumed at step %d from %s", backend.step, folder)
    return backend, manifest.metrics


@asynccontextmanager
async def open_outside_run(
    config: Config, found: tuple[Path, checkpoint.Manifest] | None, folder: Path
) -> AsyncIterator[tuple[Backend, StepMetrics]]:
    """Open a backend outside of a run, as `open_backend` does. The ranks' logs go to the empty folder `folder`.

    Raises as `supervise` does.
    """
    if config.learner.processes == 1:
        opened = await trio.to_thread.run_sync(open_backend, config, found)
        with closing(opened[0]):
            yield opened
        return
    (folder / "config.toml").write_text(dump(config))
    with make_temporary_folder("the learner's ranks") as sockets:
        async with _serve_outside_run(config, found, folder, f"ipc://{sockets}/learner") as opened:
            yield opened


@asynccontextmanager
async def _serve_outside_run(
    config: Config, found: tuple[Path, checkpoint.Manifest] | None, folder: Path, address: str
) -> AsyncIterator[tuple[Backend, StepMetrics]]:
    """Open the backend and start its further ranks, which find the first rank at `address`."""
    # Ranks ask a replay service for the first rank's address. This server answers in its place.
    peers = (Peer("learner", "learner", address),)
    ranks = Ranks(config)
    async with (
        serve(
            address,
            digest=compute_digest(config),
            bus=config.bus,
            ready=lambda _: Ready(peers),
            pulse=lambda: Pulse(peers),
        ) as server,
        ranks.served(server),  # keep serving while the supervisor waits for the ranks to end
        supervise(config.supervise, folder, {"learner": MODULE}) as supervisor,
    ):
        launches = [
            Launch(
                name_of(rank), "learner", f"{folder}/config.toml", str(folder), address, None, rank,
                choose_gpus(config, "learner", rank),
            )
            for rank in range(1, ranks.count)
        ]  # fmt: skip
        adding = [partial(supervisor.add, launch) for launch in launches]
        async with run_in_background(ranks.watch, *adding):
            opened = await trio.to_thread.run_sync(open_backend, config, found, ranks, abandon_on_cancel=True)
            with closing(opened[0]):
                yield opened
