"""Sampling that depends on nothing but the request's seed and the distribution: one counter-based uniform a token."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spade.policy.logprobs import log_distribution

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_BITS = 48  # u <= 1 - 2**-48, so that u * total < total in float64 and the inverse never falls off the end


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64 (Steele, Lea & Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def uniforms(seeds: Sequence[int], counters: Sequence[int]) -> NDArray[np.float64]:
    """One number in [0, 1) for each (seed, counter): an output of that seed's stream, whatever was asked before."""
    seed = np.array(seeds, dtype=np.uint64)
    counter = np.array(counters, dtype=np.uint64)
    bits = _mix(_mix(seed + _GOLDEN) + (counter + np.uint64(1)) * _GOLDEN)
    return (bits >> np.uint64(64 - _BITS)).astype(np.float64) * 2.0**-_BITS


def sample(logits: Tensor, temperatures: Tensor, uniform: NDArray[np.float64]) -> tuple[list[int], list[float]]:
    """A token for each row by inverting its cumulative distribution, and the token's log-probability.

    logits: (rows, vocabulary); temperatures: (rows,) float32; uniform: (rows,) in [0, 1). A token of probability zero
    is never chosen.
    """
    logprobs = log_distribution(logits, temperatures[:, None])
    cumulative = logprobs.double().exp_().cumsum(-1)
    target = torch.from_numpy(uniform).to(logits.device)[:, None] * cumulative[:, -1:]
    ids = torch.searchsorted(cumulative, target, right=True)
    return ids[:, 0].tolist(), logprobs.gather(-1, ids)[:, 0].tolist()
