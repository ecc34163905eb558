"""The torch engine beyond the contract: keys that turns share, the bound on them, and other architectures."""

import numpy as np
import pytest
import torch
import transformers

from actors.engines.torch.dense import Dense, is_dense
from actors.engines.torch.engine import TorchEngine
from actors.engines.torch.forward import Modules
from spade.codec import pack_ids, unpack_floats, unpack_ids
from spade.config import Engine
from spade.errors import ConfigError
from spade.policy.model import compute_parameters_digest
from spade.protocol import Generate, Weights
from tests.actors.engines.engine_contract import answers, assert_sampled_from
from tests.conftest import DEEPSEEK, write_checkpoint, write_tokenizer

VOCABULARY = 256


def engine(folder, rows=8, context_tokens=256, version=1, kv_bytes=1 << 30, dtype="float32"):
    weights = Weights(version, 0, compute_parameters_digest(folder), str(folder))
    settings = Engine(rows=rows, context_tokens=context_tokens, kv_bytes=kv_bytes, device="cpu")
    return TorchEngine(weights, settings, dtype)


def requests(count, seed=0, longest=80, temperature=0.8):
    rng = np.random.default_rng(seed)
    for index in range(count):
        prompt = rng.integers(3, VOCABULARY, rng.integers(1, longest)).tolist()
        yield Generate(pack_ids(prompt), int(rng.integers(1, 40)), temperature, 1_000 * seed + index)


def assert_plain(plain, asked, results):
    """Every result has the log-probabilities of a plain forward."""
    for index, request in enumerate(asked):
        assert_sampled_from(plain, request, results[index])


@pytest.fixture(scope="module")
def plain(tiny_checkpoint):
    return transformers.AutoModelForCausalLM.from_pretrained(tiny_checkpoint)


@pytest.fixture(scope="module")
def other_checkpoint(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("other"), seed=1)


# ---------------------------------------------------------------- turns


def episode(engine, turns, rng, seed):
    """Turns that each continue the last; what was sampled in each."""
    tokens, sampled = rng.integers(3, VOCABULARY, 40).tolist(), []
    for turn in range(turns):
        request = Generate(pack_ids(tokens), 8, 1.0, seed + turn)
        generated = answers(engine, [request])[0]
        sampled.append((request, generated))
        tokens += unpack_ids(generated.ids).tolist() + rng.integers(3, VOCABULARY, 15).tolist()
    return sampled


def tokens_computed(engine, monkeypatch):
    """A list that grows by the tokens of each forward."""
    computed = []
    forward_once = engine._forward

    def counted(ids, cache, keep):
        computed.append(len(ids))
        return forward_once(ids, cache, keep)

    monkeypatch.setattr(engine, "_forward", counted)
    return computed


def test_an_episode_extends_its_own_keys(tiny_checkpoint, plain, monkeypatch):
    reuser = engine(tiny_checkpoint, rows=2)
    computed = tokens_computed(reuser, monkeypatch)
    for request, generated in episode(reuser, 5, np.random.default_rng(0), 0):
        alone = answers(engine(tiny_checkpoint), [request])[0]
        assert generated.ids == alone.ids
        assert_sampled_from(plain, request, generated)
    # The first prompt; then of each turn the token before it, the observation, and what it samples but the last.
    assert sum(computed) <= 40 + 4 * (15 + 1) + 5 * 7


def test_a_shared_beginning_is_copied(tiny_checkpoint, plain):
    sharer = engine(tiny_checkpoint, rows=3)
    common = list(range(3, 63))
    first = Generate(pack_ids([*common, 70]), 40, 1.0, 1)
    sharer.submit(0, first)
    sharer.step()
    second = Generate(pack_ids([*common, 80, 81]), 10, 1.0, 2)
    sharer.submit(1, second)
    results = dict(sharer.step())
    assert int(sharer._memory.prefixes.filled[sharer._active[1].entry]) == 62
    while sharer.busy:
        results.update(sharer.step())
    assert_plain(plain, (first, second), results)


def test_a_group_submitted_at_once_computes_its_prompt_once(tiny_checkpoint, plain, monkeypatch):
    sharer = engine(tiny_checkpoint, rows=8)
    computed = tokens_computed(sharer, monkeypatch)
    asked = [Generate(pack_ids([*range(3, 103), 110 + index]), 1, 1.0, index) for index in range(8)]
    results = answers(sharer, asked)
    assert sum(computed) == 101 + 7
    assert_plain(plain, asked, results)


def test_a_request_that_waits_for_a_prompt_is_overtaken_and_goes_on_if_that_is_cancelled(tiny_checkpoint):
    sharer = engine(tiny_checkpoint, rows=8)
    sharer._pace = sharer._pace._replace(prompt_tokens=16)
    common = list(range(3, 103))
    for index, prompt in enumerate(([*common, 1], [*common, 2], [7, 8, 9])):
        sharer.submit(index, Generate(pack_ids(prompt), 3, 1.0, index))
    sharer.step()
    assert (sharer.active, sharer.queued) == (2, 1)
    sharer.cancel(0)
    results = {}
    while sharer.busy:
        results.update(sharer.step())
    assert results.keys() == {1, 2}


def test_a_turn_without_the_thought_before_computes_what_is_new_alone(tiny_checkpoint, plain, monkeypatch):
    """The prompt agrees with the sequence before up to a thought in the middle, and goes on with the answer behind."""
    sharer = engine(tiny_checkpoint, rows=2)
    opening, thought, said = list(range(3, 63)), list(range(100, 130)), [70, 71, 72]
    answers(sharer, [Generate(pack_ids([*opening, *thought, *said]), 4, 1.0, 1)])
    computed = tokens_computed(sharer, monkeypatch)
    request = Generate(pack_ids([*opening, *said, 80, 81]), 1, 1.0, 2)
    [result] = answers(sharer, [request]).values()
    assert sum(computed) == 5
    assert_sampled_from(plain, request, result)


# ---------------------------------------------------------------- new weights


def test_keys_of_older_weights_are_not_shared(tiny_checkpoint, other_checkpoint):
    swapper = engine(tiny_checkpoint)
    request = Generate(pack_ids(list(range(3, 50))), 10, 1.0, 1)
    answers(swapper, [request])
    swapper.submit(0, Generate(pack_ids(list(range(3, 60))), 30, 1.0, 2))
    swapper.step()
    swapper.load_weights(Weights(2, 1, compute_parameters_digest(other_checkpoint), str(other_checkpoint)))
    swapper.submit(1, request)
    results = {}
    while swapper.busy:
        results.update(swapper.step())
    assert results[1].ids == answers(engine(other_checkpoint), [request])[0].ids
    assert results[1].versions[0][0] == 2


def test_tokens_of_prompts_are_counted_by_what_became_of_them(tiny_checkpoint, other_checkpoint):
    counter = engine(tiny_checkpoint)
    request = Generate(pack_ids(list(range(3, 50))), 1, 1.0, 1)
    answers(counter, [request])
    answers(counter, [request])  # its last token is computed in any case
    counter.load_weights(Weights(2, 1, compute_parameters_digest(other_checkpoint), str(other_checkpoint)))
    answers(counter, [request, Generate(pack_ids([50, 51, 52]), 1, 1.0, 2)])
    assert counter.gauges() == {
        "sampled_tokens": 4,
        "prompt_tokens": 3 * 47 + 3,
        "kept_tokens": 46,
        "repeated_tokens": 46,
        "padding_tokens": 47 - 3,
    }


# ---------------------------------------------------------------- limits


def test_sequences_grow_from_extent_to_extent(tiny_checkpoint, plain):
    grower = engine(tiny_checkpoint, rows=2, context_tokens=400)
    asked = [Generate(pack_ids([5] * 340), 60, 1.0, 1), Generate(pack_ids([6, 7]), 300, 1.0, 2)]
    results = answers(grower, asked)
    assert_plain(plain, asked, results)


TOKEN_BYTES = 2 * 2 * 2 * 8 * 4  # keys and values of 2 layers of 2 heads of 8 float32, as write_checkpoint has them


@pytest.mark.parametrize("contexts", [1, 2])
def test_when_the_keys_are_full_all_is_sampled_all_the_same(tiny_checkpoint, contexts):
    # Seeds of which no draw is so near to a token's edge that who else is in a forward could decide.
    asked = [*requests(20, seed=15, longest=120), Generate(pack_ids([9] * 30), 220, 1.0, 22)]
    tight = engine(tiny_checkpoint, rows=8, kv_bytes=contexts * 256 * TOKEN_BYTES)
    seen = []
    results = answers(tight, asked, lambda _: seen.append((tight.queued, tight.active)))
    assert any(queued and active < 8 for queued, active in seen), "rows stood empty for want of keys"
    roomy = answers(engine(tiny_checkpoint), asked)
    assert tight._memory.cache.token_bytes == TOKEN_BYTES
    assert {index: generated.ids for index, generated in results.items()} == {
        index: generated.ids for index, generated in roomy.items()
    }
    for index, generated in results.items():
        expected = unpack_floats(roomy[index].logprobs)
        np.testing.assert_allclose(unpack_floats(generated.logprobs), expected, atol=1e-4)


def test_the_sequence_admitted_last_goes_back_to_the_queue(tiny_checkpoint):
    tight = engine(tiny_checkpoint, rows=2, kv_bytes=256 * TOKEN_BYTES)
    never = frozenset()
    tight._end_ids = never
    for index in range(2):
        tight.submit(index, Generate(pack_ids([9 + index] * 100), 80, 1.0, index))
    states = []
    while tight.busy:
        tight.step()
        states.append((sorted(row.id for row in tight._active.values()), [row.id for row in tight._waiting]))
    assert ([0, 1], []) in states
    assert ([0], [1]) in states
    assert ([1], [0]) not in states


def test_keys_that_do_not_hold_one_sequence_are_refused(tiny_checkpoint):
    with pytest.raises(ConfigError, match=r"engine.kv_bytes: 1000 do not hold one .* give 65536 or more"):
        engine(tiny_checkpoint, kv_bytes=1_000)


def test_cancelled_requests_are_forgotten_whatever_their_state(tiny_checkpoint):
    canceller = engine(tiny_checkpoint, rows=2)
    # Seeds of which no draw is so near to a token's edge that who else is in a forward could decide.
    asked = [Generate(pack_ids([9, 8, index + 3]), 50, 1.0, 66 + index) for index in range(6)]

    def cancel(_):
        steps.append(None)
        if len(steps) == 3:
            active = {row.id for row in canceller._active.values()}
            canceller.cancel(min(active))
            canceller.cancel(5)
            cancelled.update({min(active), 5})

    cancelled, steps = set(), []
    results = answers(canceller, asked, cancel)
    assert len(cancelled) == 2
    assert results.keys() == set(range(6)) - cancelled
    untouched = answers(engine(tiny_checkpoint), asked)
    assert all(generated.ids == untouched[index].ids for index, generated in results.items())


# ---------------------------------------------------------------- other models

SMALL = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 320,
}  # fmt: skip
GROUPED = {**SMALL, "num_key_value_heads": 2, "head_dim": 8}
MIXED = ["sliding_attention", "full_attention"]
MODELS = {
    "llama": lambda: transformers.LlamaConfig(**GROUPED),
    "llama, biased": lambda: transformers.LlamaConfig(**GROUPED, attention_bias=True, mlp_bias=True),
    "llama, passing over a window": lambda: transformers.LlamaConfig(**GROUPED, sliding_window=8),
    "llama, longer rope": lambda: transformers.LlamaConfig(
        **GROUPED, rope_parameters={"rope_type": "yarn", "factor": 4.0, "rope_theta": 10_000.0}
    ),
    "qwen2, mixed": lambda: transformers.Qwen2Config(
        **SMALL, num_key_value_heads=2, use_sliding_window=True, sliding_window=8, layer_types=MIXED
    ),
    "qwen3, mixed": lambda: transformers.Qwen3Config(
        **GROUPED, use_sliding_window=True, sliding_window=8, layer_types=MIXED, tie_word_embeddings=True
    ),
    "gpt2": lambda: transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=320),
    "gpt_neox": lambda: transformers.GPTNeoXConfig(**SMALL),
    "mistral, sliding": lambda: transformers.MistralConfig(**GROUPED, sliding_window=8),
    "gemma3, mixed": lambda: transformers.Gemma3TextConfig(**GROUPED, sliding_window=8, layer_types=MIXED),
    "mixture of experts": lambda: transformers.Qwen3MoeConfig(
        **GROUPED, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16
    ),
    "smollm3, no layer with its window": lambda: transformers.SmolLM3Config(
        **SMALL, num_key_value_heads=2, pad_token_id=0, sliding_window=8, layer_types=["full_attention"] * 2
    ),
    "afmoe, which views what attention gives": lambda: transformers.AfmoeConfig(
        **GROUPED, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, sliding_window=8, layer_types=MIXED
    ),
}


DENSE = {
    "llama", "llama, passing over a window", "llama, longer rope", "qwen2, mixed", "qwen3, mixed", "mistral, sliding",
}  # fmt: skip


def write_architecture(name, folder):
    """Write a random model of an architecture with its tokenizer; returns the model."""
    write_tokenizer(folder)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(MODELS[name]()).eval()
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("name", MODELS)
def test_other_architectures(name, tmp_path):
    model = write_architecture(name, tmp_path)
    asked = list(requests(6, longest=30, temperature=1.0))
    sampler = engine(tmp_path, rows=3)
    assert isinstance(sampler._forward, Dense if name in DENSE else Modules)
    results = answers(sampler, asked)
    assert_plain(model, asked, results)


REFUSED = {
    "it has no plain key-value cache": lambda: transformers.MambaConfig(
        hidden_size=32, num_hidden_layers=1, vocab_size=320, state_size=4
    ),
    "its rotary positions change with the longest sequence": lambda: transformers.LlamaConfig(
        **GROUPED, rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
    ),
    "its logits with the key-value store are not those of its sdpa attention": lambda: (
        transformers.RecurrentGemmaConfig(**SMALL, lru_width=32)
    ),
    "it does not pass its sliding window to its attention": lambda: transformers.PhimoeConfig(
        **SMALL, num_key_value_heads=2, num_local_experts=2, sliding_window=100
    ),
    "it does not pass the key-value store to its attention": lambda: transformers.NemotronConfig(
        **SMALL, num_key_value_heads=2, head_dim=8
    ),
    "it caches something else than its keys and values": lambda: transformers.DeepseekV3Config(**DEEPSEEK),
    "256 are more than the model's 128 positions": lambda: transformers.GPT2Config(
        n_embd=32, n_layer=2, n_head=4, vocab_size=320, n_positions=128
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("part", "scale", "reason"), [("layers", 1e30, "numbers that are not finite"), ("", 0, "only zeros")]
)
def test_a_model_of_extreme_numbers_is_refused(part, scale, reason, dtype, tmp_path):
    write_tokenizer(tmp_path)
    model = transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**GROUPED))
    with torch.no_grad():
        for name, each in model.named_parameters():
            each.mul_(scale if part in name else 1)
    model.save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=f"its own forward pass gives {reason}"):
        engine(tmp_path, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("reason", REFUSED)
def test_a_model_that_it_would_compute_wrongly_is_refused(reason, dtype, tmp_path):
    write_tokenizer(tmp_path)
    transformers.AutoModelForCausalLM.from_config(REFUSED[reason]()).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=reason):
        engine(tmp_path, dtype=dtype)


def test_a_model_that_bfloat16_rounds_strongly_runs_in_it(tmp_path):
    """Sharp attention turns a rounding into another choice, as in some real models on rare tokens."""
    write_tokenizer(tmp_path)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = transformers.LlamaConfig(**{**GROUPED, "num_hidden_layers": 12, "initializer_range": 0.3})
        model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.q_proj.weight.mul_(10)
    model.to(torch.bfloat16).save_pretrained(tmp_path)
    sampler = engine(tmp_path, dtype="bfloat16")
    assert isinstance(sampler._forward, Dense)
    assert all(each.dtype == torch.bfloat16 for each in sampler._model.parameters())
    assert {name: value.tolist() for name, value in sampler._model.state_dict().items()} == {
        name: value.tolist() for name, value in model.state_dict().items()
    }


@pytest.mark.parametrize("name", ["q_proj", "o_proj"])
def test_a_layer_that_is_no_plain_product_is_left_to_the_model(name):
    class Quantised(torch.nn.Linear):
        pass

    model = transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**GROUPED))
    assert is_dense(model)
    setattr(model.model.layers[1].self_attn, name, Quantised(32, 32, bias=False))
    assert not is_dense(model)
