"""Random models in the shapes of Qwen3, and batches of random plays."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

from spade.codec import pack_floats, pack_ids
from spade.protocol import Batch, Group, Trajectory
from tests.conftest import write_tokenizer
from tests.masks import pack_mask


class Shape(NamedTuple):
    """Sizes of a Qwen3 model with tied embeddings."""

    width: int
    layers: int
    inner: int
    heads: int
    vocabulary: int = 151_936
    dim: int = 128
    """Of a head."""
    key_heads: int = 8


SHAPES = {
    "1M": Shape(128, 3, 384, 4, 4_096, 32, 2),
    "30M": Shape(512, 6, 1_536, 8, 8_192, 64, 4),
    "0.6B": Shape(1_024, 28, 3_072, 16),
    "1.7B": Shape(2_048, 28, 6_144, 16),
}
POSITIONS = 65_536


def write_model(shape: Shape, folder: Path) -> Path:
    """Write a random model in bfloat16, whose turns end by chance alone, which is hardly ever."""
    write_tokenizer(folder)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        torch.manual_seed(0)
        model = Qwen3ForCausalLM(
            Qwen3Config(
                vocab_size=shape.vocabulary, hidden_size=shape.width, intermediate_size=shape.inner,
                num_hidden_layers=shape.layers, num_attention_heads=shape.heads, num_key_value_heads=shape.key_heads,
                head_dim=shape.dim, max_position_embeddings=POSITIONS, tie_word_embeddings=True, eos_token_id=[0, 2],
            )
        )  # fmt: skip
    model.generation_config = GenerationConfig(eos_token_id=[0, 2], pad_token_id=0)
    model.to(torch.bfloat16).save_pretrained(folder)
    return folder


def count_flops(shape: Shape, tokens: int, length: int, trained: int) -> float:
    """Return the floating-point operations of a training step on sequences of `length` tokens, `tokens` in all.

    Forward and backward take 6 for each parameter and token; the head is computed for `trained` tokens. Causal
    attention takes 12 for each layer, head dimension and pair of tokens, of which half is computed. What is computed
    again from checkpointed activations does not count.
    """
    queries, keys = shape.heads * shape.dim, shape.key_heads * shape.dim
    layer = shape.width * (2 * queries + 2 * keys) + 3 * shape.width * shape.inner
    attention = 12 * shape.layers * queries * length / 2
    return tokens * (6 * shape.layers * layer + attention) + trained * 6 * shape.width * shape.vocabulary


def make_batch(tokens: int, length: int, vocabulary: int, prompt: int, plays: int = 8, step: int = 1) -> Batch:
    """Return plays of `length` random tokens, `tokens` in all. The plays of a group share their first `prompt` tokens.

    Their log-probabilities are those of a uniform distribution, which a random model is near to.
    """
    rng = np.random.default_rng(0)
    groups = []
    for index in range(max(tokens // (length * plays), 1)):
        count = min(plays, max(tokens // length, 1))
        shared = rng.integers(3, vocabulary, prompt).tolist()
        members = []
        for _ in range(count):
            said = length - prompt
            ids = shared + rng.integers(3, vocabulary, said).tolist()
            mask = [False] * prompt + [True] * said
            logprobs = pack_floats([-float(np.log(vocabulary))] * said)
            members.append(Trajectory(pack_ids(ids), pack_mask(mask), logprobs, ((1, said),), 1.0))
        groups.append(Group(str(index), "agent", tuple(rng.random(count).tolist()), tuple(members)))
    return Batch(step, 1, tuple(groups))
