"""Sampling that depends only on a request's seed and the distribution. Each token uses one uniform random number."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from spade.policy.logprobs import log_distribution

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MOST_BLOCK = 512  # most tokens of a block
_BITS = 48  # random bits of a uniform u. u <= 1 - 2**-48, so u * total < total in float64: an id is never too large


def _mix_bits(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply the finaliser of splitmix64 (Steele, Lea & Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def draw_uniforms(seeds: Sequence[int], counters: Sequence[int]) -> NDArray[np.float64]:
    """Return one number in [0, 1) for each (seed, counter). It does not depend on earlier calls."""
    seed = np.array(seeds, dtype=np.uint64)
    counter = np.array(counters, dtype=np.uint64)
    bits = _mix_bits(_mix_bits(seed + _GOLDEN) + (counter + np.uint64(1)) * _GOLDEN)
    return (bits >> np.uint64(64 - _BITS)).astype(np.float64) * 2.0**-_BITS


def sample(
    logits: Tensor,
    temperatures: Sequence[float],
    uniform: NDArray[np.float64],
    top_p: Sequence[float],
    top_k: Sequence[int],
) -> tuple[list[int], list[float]]:
    """Sample a token for each row by inverting its cumulative distribution.

    Returns the tokens and their log-probabilities. logits: (rows, vocabulary); uniform: (rows,) in [0, 1).
    `protocol.Generate` explains the other arguments. A token of probability zero is never chosen. The log-probability
    is taken after `top_p` and `top_k` cut the distribution.
    """
    device = logits.device
    logprobs = log_distribution(logits, torch.tensor(temperatures, device=device)[:, None])
    cut = [row for row, (p, k) in enumerate(zip(top_p, top_k, strict=True)) if p < 1 or k > 0]
    if cut:
        all_of_it = logits.shape[1]
        p = torch.tensor([top_p[row] for row in cut], device=device)
        k = torch.tensor([min(top_k[row] or all_of_it, all_of_it) for row in cut], device=device)
        logprobs[cut] = truncate_logprobs(logprobs[cut], p, k)
    choose = invert_in_blocks if device.type == "cuda" else invert
    ids = choose(logprobs, torch.from_numpy(uniform).to(device))
    return ids[:, 0].tolist(), logprobs.gather(-1, ids)[:, 0].tolist()


def invert(logprobs: Tensor, uniform: Tensor) -> Tensor:
    """Return (rows, 1): the token at which each row's cumulative distribution passes `uniform` (rows,)."""
    cumulative = logprobs.exp().cumsum(-1, dtype=torch.float64)
    return torch.searchsorted(cumulative, uniform[:, None] * cumulative[:, -1:], right=True)


def invert_in_blocks(logprobs: Tensor, uniform: Tensor) -> Tensor:
    """Return the same as `invert`. Accumulates blocks of tokens, then the tokens of one block.

    On a GPU, this moves a fifth of the bytes. On a CPU, it takes longer for most vocabularies.
    """
    width = logprobs.shape[-1]
    block = min(width & -width, _MOST_BLOCK)  # a power of two that divides the vocabulary
    probability = logprobs.exp().view(len(logprobs), -1, block)
    sums = probability.sum(-1, dtype=torch.float64)
    cumulative = sums.cumsum(-1)
    target = uniform[:, None] * cumulative[:, -1:]
    at = torch.searchsorted(cumulative, target, right=True)
    rest = (target - (cumulative - sums).gather(1, at)).clamp_(min=0)
    inner = probability.gather(1, at[:, :, None].expand(-1, -1, block))[:, 0].cumsum(-1, dtype=torch.float64)
    # The last token of the block with a positive probability.
    last = torch.searchsorted(inner, inner[:, -1:].contiguous())
    return at * block + torch.minimum(torch.searchsorted(inner, rest, right=True), last)


def truncate_logprobs(logprobs: Tensor, top_p: Tensor, top_k: Tensor) -> Tensor:
    """Keep each row's `top_k` likeliest tokens, then the fewest of these that hold `top_p`. Renormalise.

    All other tokens get -inf. logprobs: (rows, vocabulary) float32; top_p: (rows,); top_k: (rows,), at least 1. Nucleus
    sampling is from Holtzman et al. 2020. As in Transformers and vLLM, it considers only the tokens that top-k left.
    """
    ordered, index = logprobs.sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(logprobs.shape[-1], device=logprobs.device)
    ordered = ordered.masked_fill(rank >= top_k[:, None], -torch.inf)
    probability = ordered.softmax(-1)
    before = probability.cumsum(-1) - probability
    ordered = ordered.masked_fill((before >= top_p[:, None]) & (rank > 0), -torch.inf)
    return torch.empty_like(logprobs).scatter_(-1, index, ordered.log_softmax(-1))
