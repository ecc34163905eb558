"""Load announced weights into an engine and check their canary before the engine samples from them."""

import logging
import time
from pathlib import Path
from typing import NamedTuple

from actors.engines.base import Engine
from spade.config import Config
from spade.disk import hold
from spade.errors import WeightsError
from spade.policy import canary
from spade.policy.canary import Canary
from spade.policy.manifest import PARAMETERS
from spade.protocol import Weights
from spade.text import format_beside

TOLERANCE = {"float32": 1e-3, "bfloat16": 0.25}  # nats, by `model.dtype`

log = logging.getLogger(__name__)


class CheckedWeights(NamedTuple):
    """Weights in use, after their check."""

    weights: Weights
    """The weights in use."""

    off: float | None
    """The canary's difference from the learner, in nats. None if the weights came without a canary."""


def compute_tolerance(config: Config) -> float:
    """Return the largest difference allowed on the canary, in nats."""
    chosen = config.engine.canary_tolerance
    return TOLERANCE[config.model.dtype] if chosen is None else chosen


def swap(engine: Engine, weights: Weights, most: float) -> CheckedWeights | None:
    """Make the engine sample from `weights` and check the canary. Returns None if the weights are retired already.

    Raises WeightsError. After an error the engine must not sample: its process ends and is restarted, and its requests
    go to other engines. `most`: see `compare`.
    """
    started = time.perf_counter()
    try:
        with hold(Path(weights.path) / PARAMETERS):
            expected = canary.read(Path(weights.path))
            engine.load_weights(weights)
    except FileNotFoundError:
        log.warning("policy version %d was retired before it was loaded; waiting for the next", weights.version)
        return None
    loaded = time.perf_counter()
    off = compare(engine, weights, expected, most)
    loading_ms, checking_ms = 1e3 * (loaded - started), 1e3 * (time.perf_counter() - loaded)
    log.info(
        "policy version %d loaded in %.0f ms, canary off by %s in %.0f ms",
        weights.version,
        loading_ms,
        off,
        checking_ms,
    )
    return CheckedWeights(weights, off)


def compare(engine: Engine, weights: Weights, expected: Canary | None, most: float) -> float | None:
    """Return the engine's difference from the learner on the canary, in nats.

    Raises WeightsError if it exceeds `most`.
    """
    if expected is None:
        log.warning("policy version %d has no canary, so its log-probabilities are not compared", weights.version)
        return None
    off = canary.compute_mismatch(expected, engine.logprobs(expected.ids))
    if off > most:
        raise WeightsError(
            f"policy version {weights.version}: the canary is off by {format_beside(off, most)} nats, over {most:g} "
            "(engine.canary_tolerance): the engine does not sample from the weights that the learner published"
        )
    return off
