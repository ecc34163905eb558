"""The engine process. It receives requests over the bus, returns tokens, and always follows the newest weights."""

import logging
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import torch
import trio

from actors.engines.base import Engine
from actors.engines.service.request_queue import RequestQueue
from actors.engines.torch.engine import TorchEngine
from actors.engines.weights.fetch import WeightsCache
from actors.engines.weights.follower import Follower
from actors.engines.weights.swap import CheckedWeights, compare, compute_tolerance
from spade.config import Config
from spade.config import Engine as Settings
from spade.disk import hold
from spade.errors import BusError, RunError, WeightsError
from spade.policy import canary
from spade.policy.manifest import PARAMETERS
from spade.policy.model import require_gpus
from spade.processes.entry import Launch, main, open_service
from spade.protocol import Weights
from spade.transport import Client
from spade.transport.pump import run_in_background

log = logging.getLogger(__name__)


async def run(launch: Launch, config: Config, ready: Callable[[], None]) -> None:
    """Serve Generate requests at `launch.bind` until cancelled. Raises BusError if no weights arrive in time."""
    require_gpus("engine.gpus", config.engine.gpus, launch.gpus)
    if config.engine.threads:
        torch.set_num_threads(config.engine.threads)
    async with open_service(launch, config) as (server, replay):
        cache = WeightsCache(replay, config.bus, Path(launch.run), config.model.path)
        async with run_in_background(partial(cache.pass_on, server)):
            weights = await _fetch_first_weights(replay, cache, config.supervise.ready_s)
            engine, swapped = await trio.to_thread.run_sync(_load, config, weights)
            log.info("serving policy version %d at %s", engine.version, server.address)
            ready()
            with closing(engine):
                await RequestQueue(server, replay, engine, config, Follower(replay, cache, swapped)).run()


def _load(config: Config, weights: Weights) -> tuple[Engine, CheckedWeights]:
    """Open the engine with its first weights. Raises the errors of `open_engine`, and RunError if the canary is off."""
    folder = Path(weights.path)
    try:
        held = hold(folder / PARAMETERS)
    except FileNotFoundError:
        raise WeightsError(f"policy version {weights.version} was retired before it was loaded") from None
    with held:
        expected = canary.read(folder)
        engine = open_engine(weights, config.engine, config.model.dtype)
    try:
        return engine, CheckedWeights(weights, compare(engine, weights, expected, compute_tolerance(config)))
    except WeightsError as error:
        # The engine has loaded only these weights, so a restart would give the same difference.
        raise RunError(str(error)) from None


def open_engine(weights: Weights, settings: Settings, dtype: str) -> Engine:
    """Open an engine of `settings.kind` that serves `weights`.

    The engine computes in `dtype`, unless `settings.arithmetic` names another type. Weights with an empty digest are
    not checked.
    Raises WeightsError if the folder holds other weights, ConfigError or RunError if the model cannot run here.
    """
    match settings.kind:
        case "torch":
            return TorchEngine(weights, settings, dtype if settings.arithmetic == "model" else settings.arithmetic)
        case "vllm":
            from actors.engines.foreign.vllm import VllmEngine  # vLLM need not be installed

            return VllmEngine(weights, settings, dtype)


async def _fetch_first_weights(replay: Client, cache: WeightsCache, deadline_s: float) -> Weights:
    """Bring the newest published weights to this host. Waits for the learner's first weights.

    Raises BusError after `deadline_s`.
    """
    if replay.pulse.weights is None:
        log.info("waiting for the first published weights")
    with trio.move_on_after(deadline_s), replay.waits.on("learner", "the first weights"):
        while True:
            newest = replay.pulse.weights
            if newest is not None and (local := await cache.bring(newest)) is not None:
                return local
            await replay.wait_pulse()
    if replay.pulse.weights is None:
        raise BusError(f"no weights were published within supervise.ready_s = {deadline_s:g} s; is a learner running?")
    raise BusError(f"no weights could be fetched from the learner within supervise.ready_s = {deadline_s:g} s")


if __name__ == "__main__":
    main(run)
