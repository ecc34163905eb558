"""The canary: a check that learner and engine agree on the log-probabilities of a few tokens.

The learner writes its own log-probabilities beside the weights that it publishes. An engine loads the weights and
compares its own log-probabilities with the learner's, before it samples. This check does not depend on how the weights
reached the engine.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from spade.decoding import UnreadableError, try_decode
from spade.disk import read_all
from spade.errors import WeightsError, format_reason
from spade.policy.logprobs import log_distribution

FILE = "canary.json"
_TOKENS = 8  # a forward pass over this many tokens costs an engine little more than a decode step
_STRIDE = 7_919  # a prime, so that the tokens are spread over any vocabulary


class Canary(msgspec.Struct, frozen=True):
    """The learner's log-probabilities of a few tokens."""

    ids: tuple[int, ...]
    """Token ids."""

    logprobs: tuple[float, ...]
    """Log-probability of each of ids[1:], given the ids before it, at temperature 1, in nats."""


def spread_ids(model: Any, count: int) -> list[int]:
    """Return `count` token ids of `model`, spread over its vocabulary.

    Comparisons need ordinary tokens. The first ids of a vocabulary are mostly control tokens that no training text
    has, and bfloat16 moves the logits after them by a fifth of their norm (SmolLM2-135M).
    """
    vocabulary = model.config.get_text_config().vocab_size
    return [(index + 1) * _STRIDE % vocabulary for index in range(count)]


@torch.no_grad()
def compute(model: Any) -> Canary:
    """Compute the canary of `model`, a Hugging Face causal language model."""
    ids = spread_ids(model, _TOKENS)
    logits = model(input_ids=torch.tensor([ids], device=model.device), use_cache=False).logits[0]
    return Canary(tuple(ids), tuple(next_logprobs(logits, ids)))


def write(canary: Canary, folder: Path) -> None:
    """Write a canary into `folder`."""
    (folder / FILE).write_bytes(msgspec.json.encode(canary))


def read(folder: Path) -> Canary | None:
    """Read the canary of published weights.

    Returns None if the folder lacks one, because no learner published the checkpoint. Raises WeightsError if it cannot
    be read.
    """
    try:
        return try_decode(msgspec.json.Decoder(Canary).decode, read_all(folder / FILE))
    except FileNotFoundError:
        return None
    except (OSError, UnreadableError) as error:
        raise WeightsError(f"{folder / FILE}: cannot be read: {format_reason(error)}") from None


def next_logprobs(logits: Tensor, ids: Sequence[int]) -> list[float]:
    """Return the log-probabilities of ids[1:], in nats.

    logits: (tokens, vocabulary) of a forward pass over `ids`. The logarithms are taken in float32.
    """
    chosen = torch.tensor(ids[1:], device=logits.device)[:, None]
    found: list[float] = log_distribution(logits[:-1], 1.0).gather(-1, chosen)[:, 0].tolist()
    return found


def compute_mismatch(canary: Canary, found: Sequence[float]) -> float:
    """Return the mean absolute difference from the learner's log-probabilities in nats.

    Infinite if a difference is not finite.
    """
    differences = [abs(mine - theirs) for mine, theirs in zip(found, canary.logprobs, strict=True)]
    mean = sum(differences) / len(differences)
    return mean if math.isfinite(mean) else math.inf
