"""The log-probabilities of the torch engine equal the learner's: dense and mixture of experts, by Qwen3."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3MoeConfig

from actors.engines.torch.engine import TorchEngine
from learner.batch import prepare
from learner.logprobs import compute_trained_logprobs
from learner.models.prepare import prepare_model
from spade.codec import pack_floats, pack_ids, unpack_floats, unpack_ids
from spade.config import Engine
from spade.policy.model import compute_parameters_digest, load
from spade.protocol import Generate, Group, Trajectory, Weights
from tests.conftest import write_tokenizer
from tests.masks import pack_mask

SIZES = {
    "vocab_size": 320, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "initializer_range": 0.2,
}  # fmt: skip
CONFIGS = {
    "dense": lambda: Qwen3Config(**SIZES),
    "mixture of experts": lambda: Qwen3MoeConfig(
        **SIZES, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=16, norm_topk_prob=True
    ),
}


def trajectory(engine, seed, temperature):
    """Three turns, each continued by an observation of random tokens."""
    rng = np.random.default_rng(seed)
    ids, logprobs, sampled = [], [], []

    def read(count):
        ids.extend(rng.integers(3, 256, count).tolist())
        sampled.extend([False] * count)

    read(int(rng.integers(2, 40)))
    for turn in range(3):
        engine.submit(turn, Generate(pack_ids(ids), int(rng.integers(2, 12)), temperature, 100 * seed + turn))
        while engine.busy:
            for _, generated in engine.step():
                ids += unpack_ids(generated.ids).tolist()
                logprobs += unpack_floats(generated.logprobs).tolist()
                sampled += [True] * (len(ids) - len(sampled))
        read(int(rng.integers(1, 8)))
    return Trajectory(pack_ids(ids), pack_mask(sampled), pack_floats(logprobs), ((1, sum(sampled)),), temperature)


@pytest.mark.parametrize("name", CONFIGS)
def test_the_engine_s_log_probabilities_are_the_learner_s(name, tmp_path):
    write_tokenizer(tmp_path)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        AutoModelForCausalLM.from_config(CONFIGS[name]()).save_pretrained(tmp_path)
    weights = Weights(1, 0, compute_parameters_digest(tmp_path), str(tmp_path))
    engine = TorchEngine(weights, Engine(rows=4, context_tokens=256, kv_bytes=1 << 26, device="cpu"), "float32")
    members = tuple(trajectory(engine, seed, 0.6 if seed % 2 else 1.0) for seed in range(8))
    model = load(tmp_path, dtype="float32", device=torch.device("cpu"))
    prepare_model(model, activation_checkpointing=False)
    work = prepare([Group("g", "agent", (0.0, 1.0) * 4, members)], 120, 32)
    assert max(len(micro.lengths) for micro in work.micro) > 1
    for micro in work.micro:
        with torch.no_grad():
            scores, _ = compute_trained_logprobs(model, micro)
        assert torch.allclose(scores, micro.behaviour, atol=1e-4)
