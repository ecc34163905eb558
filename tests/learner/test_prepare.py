"""Small random checkpoints of several architectures: packed equals alone, with and without recomputed activations."""

import pytest
import torch
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    NemotronHConfig,
    NemotronHForCausalLM,
    PhimoeConfig,
    PhimoeForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from learner.batch import prepare
from learner.logprobs import compute_trained_logprobs
from learner.models.attention import PACKED
from learner.models.prepare import prepare_model
from spade.errors import RunError
from tests.learner.conftest import VOCABULARY, Policy

SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "initializer_range": 0.2, "attention_dropout": 0.5,
}  # fmt: skip
MAKERS = {
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(head_dim=16, **SIZES)),
    "qwen3_moe": lambda: Qwen3MoeForCausalLM(
        Qwen3MoeConfig(head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, **SIZES)
    ),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES)),
    "mistral, window of 5": lambda: MistralForCausalLM(MistralConfig(sliding_window=5, **SIZES)),
}


def make(name):
    torch.manual_seed(11)
    return Policy(MAKERS[name]().eval())


def gradients(model, groups, limit):
    """Scores, entropies and the gradient of a loss over them, by micro-batches of `limit` tokens."""
    model.zero_grad()
    found = []
    for micro in prepare(groups, limit, 32).micro:
        scores, entropy = compute_trained_logprobs(model, micro)
        (scores * micro.advantage).sum().backward()
        found.append(torch.stack([scores.detach(), entropy]))
    every = torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])
    return torch.cat(found, 1), every


@pytest.mark.parametrize("name", MAKERS)
def test_packed_equals_one_sequence_at_a_time(name):
    policy = make(name)
    groups = policy.groups(1)
    alone, expected = gradients(policy.model, groups, 1)  # the model's own attention, nothing packed
    masked, _ = gradients(policy.model, groups, 10_000)  # Transformers' own way with packed positions
    prepare_model(policy.model, activation_checkpointing=False)
    assert policy.model.config._attn_implementation == PACKED
    packed, gradient = gradients(policy.model, groups, 10_000)
    assert torch.allclose(alone, packed, atol=1e-5)
    assert torch.allclose(alone, masked, atol=1e-5)
    assert torch.allclose(expected, gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["qwen3", "qwen3_moe"])
def test_recomputed_activations_change_nothing_and_are_recomputed(name):
    policy, runs = make(name), 0

    def count(*_):
        nonlocal runs
        runs += 1

    policy.model.base_model.layers[0].mlp.register_forward_pre_hook(count)
    groups = policy.groups(2)
    found = []
    for recompute in (False, True):
        prepare_model(policy.model, recompute)
        runs = 0
        found += [*gradients(policy.model, groups, 10_000), runs]
    scores, gradient, once, again, same, twice = found
    assert (once, twice) == (1, 2)
    assert torch.equal(scores, again)
    assert torch.equal(gradient, same)


def test_a_packed_model_reads_a_whole_row_and_saves_as_it_was(tmp_path):
    policy = make("qwen3")
    ids = torch.arange(2 * 9).reshape(2, 9)
    before = policy.model(ids).logits
    prepare_model(policy.model, activation_checkpointing=True)
    assert torch.allclose(policy.model(ids).logits, before, atol=1e-5)
    policy.model.save_pretrained(tmp_path)
    again = Qwen3ForCausalLM.from_pretrained(tmp_path)
    assert again.config._attn_implementation == "sdpa"
    assert "spade" not in (tmp_path / "config.json").read_text()


def test_the_rounding_of_a_deep_model_in_bfloat16_is_no_mixing():
    """Its own attention rounds otherwise than ours, and so many layers carry that far in single numbers."""
    torch.manual_seed(1)
    sizes = SIZES | {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 36}
    deep = Qwen3Config(head_dim=32, **sizes, attn_implementation="eager")
    model = Qwen3ForCausalLM(deep).eval().bfloat16()
    prepare_model(model, activation_checkpointing=False)
    assert model.config._attn_implementation == PACKED


def test_a_window_that_is_kept_by_the_mask_alone_is_kept():
    """It is longer than any probe at the start."""
    torch.manual_seed(11)
    sizes = SIZES | {"sliding_window": 20, "num_local_experts": 2}
    model = PhimoeForCausalLM(PhimoeConfig(**sizes, attn_implementation="sdpa")).eval()
    ids = torch.arange(40)[None] % VOCABULARY
    expected = model(ids).logits
    prepare_model(model, activation_checkpointing=False)
    assert torch.allclose(model(ids, position_ids=torch.arange(40)[None], use_cache=False).logits, expected, atol=1e-5)


def test_a_model_whose_positions_turn_with_the_longest_sequence_is_refused():
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
    with pytest.raises(RunError, match="llama changes its rotary positions"):
        prepare_model(LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=rope)), activation_checkpointing=False)


@pytest.mark.parametrize(
    ("part", "scale", "reason"), [("layers", 1e30, "numbers that are not finite"), ("", 0, "only zeros")]
)
def test_a_model_of_extreme_numbers_is_refused(part, scale, reason):
    model = LlamaForCausalLM(LlamaConfig(**SIZES))
    with torch.no_grad():
        for name, each in model.named_parameters():
            each.mul_(scale if part in name else 1)
    with pytest.raises(RunError, match=f"cannot train llama: its own forward pass gives {reason}"):
        prepare_model(model, activation_checkpointing=False)


def test_a_model_that_mixes_packed_sequences_is_refused():
    torch.manual_seed(0)
    state = MambaForCausalLM(MambaConfig(vocab_size=48, hidden_size=32, num_hidden_layers=1, state_size=4)).eval()
    with pytest.raises(RunError, match="mamba mixes sequences"):
        prepare_model(state, activation_checkpointing=False)
    hybrid = NemotronHForCausalLM(
        NemotronHConfig(
            vocab_size=48, hidden_size=32, layers_block_type=["mamba", "attention"], num_attention_heads=4,
            num_key_value_heads=2, head_dim=8, ssm_state_size=8, mamba_num_heads=8, mamba_head_dim=8, n_groups=2,
        )
    ).eval()  # fmt: skip
    with pytest.raises(RunError, match="nemotron_h mixes sequences"):
        prepare_model(hybrid, activation_checkpointing=False)
    biased = BloomForCausalLM(BloomConfig(vocab_size=48, hidden_size=32, n_layer=1, n_head=2)).eval()
    with pytest.raises(RunError, match="bloom mixes sequences"):
        prepare_model(biased, activation_checkpointing=False)
