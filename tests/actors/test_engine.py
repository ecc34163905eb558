"""The torch engine samples what the model says: alone or in a crowd, across turns and across new weights."""

from collections import Counter

import numpy as np
import pytest
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

from actors.engines.prefixes import Placement, Prefixes
from actors.engines.sampling import sample, uniforms
from actors.engines.slots import Chunk, arrange
from actors.engines.torch import TorchEngine
from spade.codec import pack_ids, unpack_floats, unpack_ids
from spade.errors import ConfigError, WeightsError
from spade.policy.logprobs import log_distribution
from spade.policy.model import parameters_digest
from spade.protocol import Generate, Weights
from tests.conftest import write_checkpoint, write_tokenizer

VOCABULARY = 256


def engine(folder, rows=8, context_tokens=256, version=1):
    weights = Weights(version, 0, parameters_digest(folder), str(folder))
    return TorchEngine(weights, rows=rows, context_tokens=context_tokens, dtype="float32", device="cpu")


def requests(count, seed=0, longest=80, temperature=0.8):
    rng = np.random.default_rng(seed)
    for index in range(count):
        prompt = rng.integers(3, VOCABULARY, rng.integers(1, longest)).tolist()
        yield Generate(pack_ids(prompt), int(rng.integers(1, 40)), temperature, 1_000 * seed + index)


def run(engine, requests, between=lambda step: None):
    """Submit all, step until none is left; results by index."""
    for index, request in enumerate(requests):
        assert engine.refusal(request) is None
        engine.submit(index, request)
    results, step = {}, 0
    while engine.busy:
        between(step)
        for index, generated in engine.step():
            assert index not in results
            results[index] = generated
        step += 1
    return results


def forward(model, request, generated):
    """Log-probabilities of the sampled tokens by one plain forward over the whole sequence."""
    prompt, ids = unpack_ids(request.prompt), unpack_ids(generated.ids)
    whole = torch.tensor(np.concatenate([prompt, ids]).astype(np.int64))
    with torch.inference_mode():
        logprobs = log_distribution(model(whole[None]).logits[0], request.temperature)
    return logprobs[len(prompt) - 1 : -1].gather(1, whole[len(prompt) :, None])[:, 0].numpy()


@pytest.fixture(scope="module")
def plain(tiny_checkpoint):
    return transformers.AutoModelForCausalLM.from_pretrained(tiny_checkpoint)


@pytest.fixture(scope="module")
def other_checkpoint(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("other"), seed=1)


# ---------------------------------------------------------------- what is sampled


def test_logprobs_are_those_of_a_plain_forward_under_load(tiny_checkpoint, plain):
    asked = list(requests(24))
    results = run(engine(tiny_checkpoint, rows=6), asked)
    assert len(results) == 24
    for index, generated in results.items():
        expected = forward(plain, asked[index], generated)
        np.testing.assert_allclose(unpack_floats(generated.logprobs), expected, atol=1e-4)


def test_a_result_ends_at_the_end_token_or_at_its_limit(tiny_checkpoint):
    asked = list(requests(40))
    finishes = Counter()
    for index, generated in run(engine(tiny_checkpoint), asked).items():
        ids = unpack_ids(generated.ids).tolist()
        finishes[generated.finish] += 1
        assert not {0, 2} & set(ids[:-1])
        if generated.finish == "stop":
            assert ids[-1] in (0, 2)
        else:
            assert len(ids) == asked[index].max_tokens
            assert ids[-1] not in (0, 2)
    assert min(finishes["stop"], finishes["length"]) > 2


def test_alone_and_in_a_crowd_a_request_gets_the_same(tiny_checkpoint):
    asked = list(requests(16))
    crowd = run(engine(tiny_checkpoint), asked)
    for index in (0, 7, 15):
        alone = run(engine(tiny_checkpoint, rows=1), [asked[index]])[0]
        assert alone.ids == crowd[index].ids
        np.testing.assert_allclose(unpack_floats(alone.logprobs), unpack_floats(crowd[index].logprobs), atol=1e-5)


def test_other_seeds_give_other_tokens(tiny_checkpoint):
    prompt = pack_ids([5, 6, 7])
    results = run(engine(tiny_checkpoint), [Generate(prompt, 12, 1.0, seed) for seed in range(8)])
    assert len({generated.ids for generated in results.values()}) == 8


def test_sampling_inverts_the_distribution():
    logits = torch.log(torch.tensor([0.0, 0.5, 0.0, 0.3, 0.2, 0.0])).expand(1_000, 6)
    grid = (np.arange(1_000) + 0.5) / 1_000
    ids, logprobs = sample(logits, torch.ones(1_000), grid)
    assert Counter(ids) == {1: 500, 3: 300, 4: 200}
    assert logprobs[0] == pytest.approx(np.log(0.5), abs=1e-6)
    ids, _ = sample(logits[:2], torch.ones(2), np.array([0.0, 1 - 2.0**-48]))
    assert ids == [1, 4], "a token of probability zero is never chosen, at either end"


def test_uniforms_are_uniform_and_need_no_history():
    numbers = uniforms([3] * 4_000, range(4_000))
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=10, range=(0, 1))
    assert abs(counts - 400).max() < 80
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.05
    assert uniforms([2**63 - 1, 3], [0, 17]).tolist() == [uniforms([2**63 - 1], [0])[0], numbers[17]]


# ---------------------------------------------------------------- turns


def episode(engine, turns, rng, seed):
    """Turns that each continue the last; what was sampled in each."""
    tokens, sampled = rng.integers(3, VOCABULARY, 40).tolist(), []
    for turn in range(turns):
        request = Generate(pack_ids(tokens), 8, 1.0, seed + turn)
        generated = run(engine, [request])[0]
        sampled.append((request, generated))
        tokens += unpack_ids(generated.ids).tolist() + rng.integers(3, VOCABULARY, 15).tolist()
    return sampled


def test_an_episode_extends_its_own_keys(tiny_checkpoint, plain, monkeypatch):
    computed = []
    reuser = engine(tiny_checkpoint, rows=2)
    forward_once = reuser._forward

    def counted(plan):
        computed.append(sum(chunk.size for chunk in plan.chunks))
        return forward_once(plan)

    monkeypatch.setattr(reuser, "_forward", counted)
    for request, generated in episode(reuser, 5, np.random.default_rng(0), 0):
        alone = run(engine(tiny_checkpoint), [request])[0]
        assert generated.ids == alone.ids
        expected = forward(plain, request, generated)
        np.testing.assert_allclose(unpack_floats(generated.logprobs), expected, atol=1e-4)
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
    assert int(sharer._prefixes.filled[sharer._active[1].slot]) == 62
    while sharer.busy:
        results.update(sharer.step())
    for index, request in enumerate((first, second)):
        expected = forward(plain, request, results[index])
        np.testing.assert_allclose(unpack_floats(results[index].logprobs), expected, atol=1e-4)


def test_places():
    prefixes = Prefixes(3, 64)

    def hold(slot, ids, step):
        prefixes.begin(Placement(slot, slot, 0), np.array(ids, dtype=np.int32))
        prefixes.write(np.full(len(ids), slot), np.arange(len(ids)), np.array(ids), step)

    ask = lambda ids, idle: prefixes.place(np.array(ids, dtype=np.int32), idle)  # noqa: E731
    assert ask([1], [0, 1, 2]).tokens == 0
    long, short = list(range(20)), [9, 9, 9]
    hold(0, long, step=1)
    hold(1, short, step=2)
    assert ask([*long, 50], [0, 1, 2]) == Placement(0, 0, 20), "the continuation takes its slot over"
    assert ask([*long, 50], [1, 2]) == Placement(2, 0, 20), "a busy slot is copied from, into one never used"
    assert ask([*long[:12], 50], [0, 1]) == Placement(0, 0, 12), "the slot idle for longest"
    assert ask([*short, 1], [1, 2]) == Placement(1, 1, 3)
    assert ask([*short[:2], 1], [1, 2]) == Placement(2, 2, 0), "two tokens are not worth a copy"
    assert ask(long, [0]) == Placement(0, 0, 19), "the last token is computed again: its logits are needed"
    prefixes.forget()
    assert ask([*long, 50], [0, 1, 2]) == Placement(2, 2, 0)


# ---------------------------------------------------------------- new weights


def test_a_swap_keeps_sequences_and_marks_their_tokens(tiny_checkpoint, other_checkpoint, plain):
    asked = [Generate(pack_ids([9, 8, 7 + index]), 30, 1.0, index) for index in range(12)]
    swapper = engine(tiny_checkpoint, rows=6)
    newer = Weights(2, 1, parameters_digest(other_checkpoint), str(other_checkpoint))
    results = run(swapper, asked, lambda step: swapper.load_weights(newer) if step == 5 else None)
    before = run(engine(tiny_checkpoint, rows=6), asked)
    after = run(engine(other_checkpoint, rows=6), asked)
    spans = {index: generated.versions for index, generated in results.items()}
    assert any(len(span) == 2 for span in spans.values())
    for index, span in spans.items():
        generated, head = results[index], span[0][1] if span[0][0] == 1 else 0
        assert [version for version, _ in span] == sorted({version for version, _ in span})
        assert generated.ids[: 4 * head] == before[index].ids[: 4 * head]
        if head == 0:
            assert generated.ids == after[index].ids
    mixed = next(index for index, span in spans.items() if len(span) == 2)
    assert results[mixed].ids != before[mixed].ids


def test_keys_of_older_weights_are_not_shared(tiny_checkpoint, other_checkpoint):
    swapper = engine(tiny_checkpoint)
    request = Generate(pack_ids(list(range(3, 50))), 10, 1.0, 1)
    run(swapper, [request])
    swapper.submit(0, Generate(pack_ids(list(range(3, 60))), 30, 1.0, 2))
    swapper.step()
    swapper.load_weights(Weights(2, 1, parameters_digest(other_checkpoint), str(other_checkpoint)))
    swapper.submit(1, request)
    results = {}
    while swapper.busy:
        results.update(swapper.step())
    assert results[1].ids == run(engine(other_checkpoint), [request])[0].ids
    assert results[1].versions[0][0] == 2


def test_the_same_weights_again_are_a_version_and_nothing_more(tiny_checkpoint, tmp_path):
    swapper = engine(tiny_checkpoint)
    swapper.load_weights(Weights(7, 3, parameters_digest(tiny_checkpoint), str(tmp_path / "never read")))
    assert run(swapper, list(requests(1)))[0].versions[0][0] == 7


def test_damaged_weights_are_refused_and_the_old_ones_stay(tiny_checkpoint, tmp_path):
    damaged = write_checkpoint(tmp_path, seed=3)
    digest = parameters_digest(damaged)
    parameters = damaged / "model.safetensors"
    parameters.write_bytes(parameters.read_bytes()[:-1] + b"x")
    swapper = engine(tiny_checkpoint)
    with pytest.raises(WeightsError, match="its digest is not"):
        swapper.load_weights(Weights(2, 1, digest, str(damaged)))
    assert run(swapper, list(requests(1)))[0].versions[0][0] == 1


# ---------------------------------------------------------------- limits


def test_keys_grow_to_the_context_and_no_further(tiny_checkpoint, plain):
    grower = engine(tiny_checkpoint, rows=2, context_tokens=400)
    asked = [Generate(pack_ids([5] * 340), 60, 1.0, 1), Generate(pack_ids([6, 7]), 300, 1.0, 2)]
    results = run(grower, asked)
    assert grower._cache.tokens == 400
    for index, request in enumerate(asked):
        expected = forward(plain, request, results[index])
        np.testing.assert_allclose(unpack_floats(results[index].logprobs), expected, atol=1e-4)


def test_long_prompts_are_computed_piece_by_piece(tiny_checkpoint, plain, monkeypatch):
    pacer = engine(tiny_checkpoint, rows=4)
    monkeypatch.setattr(pacer, "_pace", pacer._pace._replace(prompt_tokens=16))
    asked = list(requests(8, longest=100))
    results = run(pacer, asked)
    for index, request in enumerate(asked):
        expected = forward(plain, request, results[index])
        np.testing.assert_allclose(unpack_floats(results[index].logprobs), expected, atol=1e-4)


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (Generate(pack_ids([3] * 200), 57, 1.0, 0), "exceed engine.context_tokens = 256"),
        (Generate(b"", 1, 1.0, 0), "needs a prompt"),
        (Generate(b"abc", 1, 1.0, 0), "needs a prompt of int32 ids"),
        (Generate(pack_ids([3]), 0, 1.0, 0), "max_tokens of at least 1"),
        (Generate(pack_ids([3]), 1, 1.0, -1), "seed of at least 0"),
        (Generate(pack_ids([3, 99_999]), 1, 1.0, 0), "ids outside of the model's"),
        (Generate(pack_ids([-1]), 1, 1.0, 0), "ids outside of the model's"),
        (Generate(pack_ids([3]), 1, 0.0, 0), "temperature must be at least"),
        (Generate(pack_ids([3]), 1, float("nan"), 0), "temperature must be at least"),
    ],
)
def test_what_can_never_be_served_is_refused(tiny_checkpoint, request_, reason):
    assert reason in engine(tiny_checkpoint).refusal(request_)


def test_cancelled_requests_are_forgotten_whatever_their_state(tiny_checkpoint):
    canceller = engine(tiny_checkpoint, rows=2)
    asked = [Generate(pack_ids([9, 8, index + 3]), 50, 1.0, index) for index in range(6)]

    def cancel(step):
        if step == 3:
            active = {row.id for row in canceller._active.values()}
            canceller.cancel(min(active))
            canceller.cancel(5)
            cancelled.update({min(active), 5})

    cancelled = set()
    results = run(canceller, asked, cancel)
    assert len(cancelled) == 2
    assert results.keys() == set(range(6)) - cancelled
    untouched = run(engine(tiny_checkpoint), asked)
    assert all(generated.ids == untouched[index].ids for index, generated in results.items())


# ---------------------------------------------------------------- other models

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 320,
}
GROUPED = {**SMALL, "num_key_value_heads": 2, "head_dim": 8}
MIXED = ["sliding_attention", "full_attention"]
MODELS = {
    "llama": lambda: transformers.LlamaConfig(**GROUPED),
    "gpt2": lambda: transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=320),
    "gpt_neox": lambda: transformers.GPTNeoXConfig(**SMALL),
    "mistral, sliding": lambda: transformers.MistralConfig(**GROUPED, sliding_window=8),
    "gemma3, mixed": lambda: transformers.Gemma3TextConfig(**GROUPED, sliding_window=8, layer_types=MIXED),
    "mixture of experts": lambda: transformers.Qwen3MoeConfig(
        **GROUPED, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_other_architectures(name, tmp_path):
    write_tokenizer(tmp_path)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(MODELS[name]()).eval()
    model.save_pretrained(tmp_path)
    asked = list(requests(6, longest=30, temperature=1.0))
    results = run(engine(tmp_path, rows=3), asked)
    for index, generated in results.items():
        np.testing.assert_allclose(
            unpack_floats(generated.logprobs), forward(model, asked[index], generated), atol=1e-4
        )


def test_an_architecture_without_a_plain_cache_is_refused(tmp_path):
    write_tokenizer(tmp_path)
    config = transformers.MambaConfig(hidden_size=32, num_hidden_layers=1, vocab_size=320, state_size=4)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="cannot run mamba"):
        engine(tmp_path)


# ---------------------------------------------------------------- grouping


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(1, 60)), min_size=1, max_size=40),
    st.sampled_from([0, 2_048, 1 << 30]),
)
def test_groups_partition_the_chunks(sizes, spare):
    chunks = [Chunk(slot, start, size) for slot, (start, size) in enumerate(sizes)]
    groups = arrange(chunks, spare)
    assert sorted(chunk for group in groups for chunk in group) == chunks
    assert all([chunk.slot for chunk in group] == sorted(chunk.slot for chunk in group) for group in groups)
    if spare == 1 << 30:
        assert len(groups) == 1


def test_like_goes_with_like():
    decoding = [Chunk(slot, 100 + slot, 1) for slot in range(40)]
    prompts = [Chunk(50, 0, 200), Chunk(51, 0, 198)]
    assert [len(group) for group in arrange([*prompts, *decoding], 2_048)] == [40, 2]
