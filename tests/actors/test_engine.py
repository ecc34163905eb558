"""The torch engine samples what the model says: alone or in a crowd, across turns and across new weights."""

import re
from collections import Counter
from functools import partial

import msgspec
import numpy as np
import pytest
import tokenizers
import torch
import transformers
from hypothesis import given
from hypothesis import strategies as st

from actors.engines.dense import Dense, is_dense
from actors.engines.extents import SMALLEST, Extent, Extents, size_for
from actors.engines.packed import Modules
from actors.engines.plan import Chunk, arrange
from actors.engines.prefixes import Placement, Prefixes
from actors.engines.sampling import sample, truncated, uniforms
from actors.engines.torch import TorchEngine
from spade.codec import pack_ids, unpack_floats, unpack_ids
from spade.errors import ConfigError, WeightsError
from spade.policy.logprobs import log_distribution
from spade.policy.model import parameters_digest
from spade.protocol import Generate, Weights
from tests.conftest import write_checkpoint, write_tokenizer

VOCABULARY = 256


def engine(folder, rows=8, context_tokens=256, version=1, kv_bytes=1 << 30):
    weights = Weights(version, 0, parameters_digest(folder), str(folder))
    return TorchEngine(
        weights, rows=rows, context_tokens=context_tokens, kv_bytes=kv_bytes, dtype="float32", device="cpu"
    )


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
    asked = list(requests(32))
    crowd = run(engine(tiny_checkpoint, rows=32), asked)
    for index in (0, 7, 15, 31):
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
    ids, logprobs = sample(logits, [1.0] * 1_000, grid, [1.0] * 1_000, [0] * 1_000)
    assert Counter(ids) == {1: 500, 3: 300, 4: 200}
    assert logprobs[0] == pytest.approx(np.log(0.5), abs=1e-6)
    ids, _ = sample(logits[:2], [1.0] * 2, np.array([0.0, 1 - 2.0**-48]), [1.0] * 2, [0] * 2)
    assert ids == [1, 4], "a token of probability zero is never chosen, at either end"


def test_a_cut_distribution_is_renormalised_and_the_rest_is_never_sampled():
    logits = torch.log(torch.tensor([0.05, 0.4, 0.25, 0.2, 0.1])).expand(1_000, 5)
    grid = (np.arange(1_000) + 0.5) / 1_000
    ids, logprobs = sample(logits, [1.0] * 1_000, grid, [0.6] * 1_000, [0] * 1_000)
    assert Counter(ids) == {1: 615, 2: 385}, "0.4 are too few, 0.65 hold 0.6"
    assert logprobs[0] == pytest.approx(np.log(0.4 / 0.65), abs=1e-6)
    ids, _ = sample(logits, [1.0] * 1_000, grid, [1.0] * 1_000, [3] * 1_000)
    assert set(ids) == {1, 2, 3}
    ids, _ = sample(logits, [1.0] * 1_000, grid, [0.9, 1.0] * 500, [1, 0] * 500)
    assert set(ids[::2]) == {1}
    assert set(ids[1::2]) == {0, 1, 2, 3, 4}


def test_cutting_agrees_with_transformers():
    logits = torch.randn(20, 300, generator=torch.Generator().manual_seed(0))
    ours = truncated(logits.log_softmax(-1), torch.full((20,), 0.7), torch.full((20,), 40))
    theirs = transformers.TopPLogitsWarper(0.7)(None, transformers.TopKLogitsWarper(40)(None, logits)).log_softmax(-1)
    torch.testing.assert_close(ours, theirs)


def test_any_top_k_over_the_vocabulary_is_all_of_it():
    logits, half = torch.zeros(2, 4), np.array([0.6, 0.6])
    assert sample(logits, [1.0] * 2, half, [1.0] * 2, [0, 2**64 - 1])[0] == [2, 2]


def test_logprobs_are_those_of_the_cut_distribution_at_its_temperature(tiny_checkpoint, plain):
    request = Generate(pack_ids([5, 6, 7]), 30, 0.7, 3, top_p=0.8, top_k=10)
    generated = run(engine(tiny_checkpoint), [request, *requests(5)])[0]
    prompt, ids = unpack_ids(request.prompt), unpack_ids(generated.ids)
    whole = torch.tensor(np.concatenate([prompt, ids]).astype(np.int64))
    with torch.inference_mode():
        logprobs = log_distribution(plain(whole[None]).logits[0, len(prompt) - 1 : -1], 0.7)
    cut = truncated(logprobs, torch.full((len(ids),), 0.8), torch.full((len(ids),), 10))
    expected = cut.gather(1, whole[len(prompt) :, None])[:, 0].numpy()
    np.testing.assert_allclose(unpack_floats(generated.logprobs), expected, atol=1e-4)


def test_a_stop_string_ends_a_sequence_and_is_part_of_it(tiny_checkpoint):
    decode = partial(
        tokenizers.Tokenizer.from_file(str(tiny_checkpoint / "tokenizer.json")).decode, skip_special_tokens=False
    )
    asked = list(requests(12))
    free = run(engine(tiny_checkpoint), asked)
    stopped = 0
    for index, generated in free.items():
        ids = unpack_ids(generated.ids).tolist()
        texts = [decode(ids[: count + 1]) for count in range(len(ids))]
        # Most random tokens are no text.
        stop = re.sub("\N{REPLACEMENT CHARACTER}+.?", "", texts[-1][2:-2])[:1]
        if not stop:
            continue
        bound = msgspec.structs.replace(asked[index], stop=("never said", stop))
        found = run(engine(tiny_checkpoint), [bound])[0]
        first = next(count for count, text in enumerate(texts) if stop in text)
        assert unpack_ids(found.ids).tolist() == ids[: first + 1]
        assert found.finish == "stop"
        stopped += first + 1 < len(ids)
    assert stopped > 2


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
    assert int(sharer._memory.prefixes.filled[sharer._active[1].slot]) == 62
    while sharer.busy:
        results.update(sharer.step())
    for index, request in enumerate((first, second)):
        expected = forward(plain, request, results[index])
        np.testing.assert_allclose(unpack_floats(results[index].logprobs), expected, atol=1e-4)


def test_a_group_submitted_at_once_computes_its_prompt_once(tiny_checkpoint, plain, monkeypatch):
    sharer = engine(tiny_checkpoint, rows=8)
    computed = tokens_computed(sharer, monkeypatch)
    asked = [Generate(pack_ids([*range(3, 103), 110 + index]), 1, 1.0, index) for index in range(8)]
    results = run(sharer, asked)
    assert sum(computed) == 101 + 7
    for index, request in enumerate(asked):
        expected = forward(plain, request, results[index])
        np.testing.assert_allclose(unpack_floats(results[index].logprobs), expected, atol=1e-4)


def test_who_waits_for_a_prompt_is_overtaken_and_goes_on_where_that_is_cancelled(tiny_checkpoint):
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


def test_a_turn_without_the_thought_before_computes_what_is_new_alone(tiny_checkpoint, plain, monkeypatch):
    """The prompt agrees with the sequence before up to a thought in the middle, and goes on with the answer behind."""
    sharer = engine(tiny_checkpoint, rows=2)
    opening, thought, said = list(range(3, 63)), list(range(100, 130)), [70, 71, 72]
    run(sharer, [Generate(pack_ids([*opening, *thought, *said]), 4, 1.0, 1)])
    computed = tokens_computed(sharer, monkeypatch)
    request = Generate(pack_ids([*opening, *said, 80, 81]), 1, 1.0, 2)
    [result] = run(sharer, [request]).values()
    assert sum(computed) == 5
    np.testing.assert_allclose(unpack_floats(result.logprobs), forward(plain, request, result), atol=1e-4)


# ---------------------------------------------------------------- new weights


def test_a_swap_keeps_sequences_and_marks_their_tokens(tiny_checkpoint, other_checkpoint, plain):
    # Seeds of which no draw is so near to a token's edge that who else is in a forward could decide.
    asked = [Generate(pack_ids([9, 8, 7 + index]), 30, 1.0, 377 + index) for index in range(12)]
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


def test_sequences_grow_from_extent_to_extent(tiny_checkpoint, plain):
    grower = engine(tiny_checkpoint, rows=2, context_tokens=400)
    asked = [Generate(pack_ids([5] * 340), 60, 1.0, 1), Generate(pack_ids([6, 7]), 300, 1.0, 2)]
    results = run(grower, asked)
    for index, request in enumerate(asked):
        expected = forward(plain, request, results[index])
        np.testing.assert_allclose(unpack_floats(results[index].logprobs), expected, atol=1e-4)


TOKEN_BYTES = 2 * 2 * 2 * 8 * 4  # keys and values of 2 layers of 2 heads of 8 float32, as write_checkpoint has them


@pytest.mark.parametrize("contexts", [1, 2])
def test_when_the_keys_are_full_all_is_sampled_all_the_same(tiny_checkpoint, contexts):
    # Seeds of which no draw is so near to a token's edge that who else is in a forward could decide.
    asked = [*requests(20, seed=15, longest=120), Generate(pack_ids([9] * 30), 220, 1.0, 22)]
    tight = engine(tiny_checkpoint, rows=8, kv_bytes=contexts * 256 * TOKEN_BYTES)
    seen = []
    results = run(tight, asked, lambda step: seen.append((tight.queued, tight.active)))
    assert any(queued and active < 8 for queued, active in seen), "rows stood empty for want of keys"
    roomy = run(engine(tiny_checkpoint), asked)
    assert tight._memory.cache.token_bytes == TOKEN_BYTES
    assert {index: generated.ids for index, generated in results.items()} == {
        index: generated.ids for index, generated in roomy.items()
    }
    for index, generated in results.items():
        expected = unpack_floats(roomy[index].logprobs)
        np.testing.assert_allclose(unpack_floats(generated.logprobs), expected, atol=1e-4)


def test_who_was_admitted_last_goes_back_to_the_queue(tiny_checkpoint):
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


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 1_024)), max_size=200))
def test_extents_never_overlap_and_come_together_again(orders):
    extents, taken = Extents(4_096, 1_024), []
    for take, number in orders:
        if take:
            extent = extents.take(size_for(number))
            if extent is None:
                assert extents.free < 4_096
                continue
            assert extent.size >= max(number, SMALLEST)
            assert extent.start % extent.size == 0
            assert extent.start + extent.size <= 4_096
            assert all(extent.start >= o.start + o.size or o.start >= extent.start + extent.size for o in taken)
            taken.append(extent)
        elif taken:
            extents.give(taken.pop(number % len(taken)))
        assert extents.free + sum(extent.size for extent in taken) == 4_096
    for extent in taken:
        extents.give(extent)
    assert [extents.take(1_024) for _ in range(5)] == [
        *(Extent(start, 1_024) for start in range(0, 4_096, 1_024)),
        None,
    ]


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
        (Generate(pack_ids([3]), 1, 1.0, 0, top_p=0.0), "top_p must be in"),
        (Generate(pack_ids([3]), 1, 1.0, 0, top_k=-1), "top_k at least 0"),
        (Generate(pack_ids([3]), 1, 1.0, 0, stop=("a", "")), "an empty stop string"),
    ],
)
def test_what_can_never_be_served_is_refused(tiny_checkpoint, request_, reason):
    assert reason in engine(tiny_checkpoint).refusal(request_)


def test_cancelled_requests_are_forgotten_whatever_their_state(tiny_checkpoint):
    canceller = engine(tiny_checkpoint, rows=2)
    # Seeds of which no draw is so near to a token's edge that who else is in a forward could decide.
    asked = [Generate(pack_ids([9, 8, index + 3]), 50, 1.0, 66 + index) for index in range(6)]

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
    "llama",
    "llama, passing over a window",
    "llama, longer rope",
    "qwen2, mixed",
    "qwen3, mixed",
    "mistral, sliding",
}


@pytest.mark.parametrize("name", MODELS)
def test_other_architectures(name, tmp_path):
    write_tokenizer(tmp_path)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(MODELS[name]()).eval()
    model.save_pretrained(tmp_path)
    asked = list(requests(6, longest=30, temperature=1.0))
    sampler = engine(tmp_path, rows=3)
    assert isinstance(sampler._forward, Dense if name in DENSE else Modules)
    results = run(sampler, asked)
    for index, generated in results.items():
        np.testing.assert_allclose(
            unpack_floats(generated.logprobs), forward(model, asked[index], generated), atol=1e-4
        )


REFUSED = {
    "it has no plain key-value cache": lambda: transformers.MambaConfig(
        hidden_size=32, num_hidden_layers=1, vocab_size=320, state_size=4
    ),
    "its positions turn with the longest sequence": lambda: transformers.LlamaConfig(
        **GROUPED, rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
    ),
    "its attention is not sdpa attention": lambda: transformers.RecurrentGemmaConfig(**SMALL, lru_width=32),
    "it does not tell its attention of its sliding window": lambda: transformers.PhimoeConfig(
        **SMALL, num_key_value_heads=2, num_local_experts=2, sliding_window=100
    ),
    "it does not pass on what its attention needs": lambda: transformers.NemotronConfig(
        **SMALL, num_key_value_heads=2, head_dim=8
    ),
    "it caches something else than its keys and values": lambda: transformers.DeepseekV3Config(
        **SMALL,
        num_key_value_heads=4,
        first_k_dense_replace=2,
        q_lora_rank=16,
        kv_lora_rank=16,
        qk_rope_head_dim=8,
        qk_nope_head_dim=8,
        v_head_dim=12,
    ),
    "256 are more than the model's 128 positions": lambda: transformers.GPT2Config(
        n_embd=32, n_layer=2, n_head=4, vocab_size=320, n_positions=128
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_it_would_compute_wrongly_is_refused(reason, tmp_path):
    write_tokenizer(tmp_path)
    transformers.AutoModelForCausalLM.from_config(REFUSED[reason]()).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=reason):
        engine(tmp_path)


@pytest.mark.parametrize("name", ["q_proj", "o_proj"])
def test_a_layer_that_is_no_plain_product_is_left_to_the_model(name):
    class Quantised(torch.nn.Linear):
        pass

    model = transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**GROUPED))
    assert is_dense(model)
    setattr(model.model.layers[1].self_attn, name, Quantised(32, 32, bias=False))
    assert not is_dense(model)


# ---------------------------------------------------------------- grouping


def chunk(slot, start, size):
    return Chunk(slot, Extent(slot * 512, size_for(start + size)), start, size)


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(1, 60)), min_size=1, max_size=40),
    st.sampled_from([0, 2_048, 1 << 30]),
)
def test_groups_partition_the_chunks(sizes, spare):
    chunks = [chunk(slot, start, size) for slot, (start, size) in enumerate(sizes)]
    groups = arrange(chunks, spare)
    assert sorted(each for group in groups for each in group) == chunks
    for group in groups:
        assert [each.extent for each in group] == sorted(each.extent for each in group)
        assert len({each.extent.size for each in group}) == 1
        padded = len(group) * max(each.size for each in group) * max(each.end for each in group)
        assert padded <= sum(each.size * each.end for each in group) + spare
    if spare == 1 << 30:
        assert len(groups) == len({each.extent.size for each in chunks})


def test_like_goes_with_like():
    decoding = [chunk(slot, 140 + slot, 1) for slot in range(40)]
    prompts = [chunk(50, 0, 200), chunk(51, 0, 198)]
    assert [len(group) for group in arrange([*prompts, *decoding], 2_048)] == [40, 2]
