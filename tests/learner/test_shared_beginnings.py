"""Beginnings computed once: loss, log-probabilities and gradients of the loop over single sequences, in every setting.

Weights are random and small, and vocabularies smaller, so that sequences begin alike as often as a test wants.
"""

import copy
import functools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PhimoeConfig,
    PhimoeForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from learner.backends.torch import TorchBackend
from learner.batch import prepare
from learner.logprobs import compute_trained_logprobs
from learner.models.attention import PACKED
from learner.models.prepare import prepare_model, shares_beginnings
from spade import codec, config
from spade.protocol import Batch, Group, Trajectory
from tests.learner.conftest import VOCABULARY, Policy
from tests.learner.test_rewinds import TEMPERATURE, by_the_book
from tests.masks import pack_mask

SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "initializer_range": 0.2,
}  # fmt: skip
WINDOWED = "gemma3, windows of 7 in every other layer"
MAKERS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(head_dim=16, tie_word_embeddings=True, **SIZES)),
    "qwen3_moe": lambda: Qwen3MoeForCausalLM(
        Qwen3MoeConfig(head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24, **SIZES)
    ),
    WINDOWED: lambda: Gemma3ForCausalLM(
        Gemma3TextConfig(
            head_dim=16, sliding_window=7, layer_types=["sliding_attention", "full_attention"] * 2,
            query_pre_attn_scalar=16, **SIZES | {"num_hidden_layers": 4},
        )
    ),
}  # fmt: skip


def make(name):
    torch.manual_seed(11)
    return Policy(MAKERS[name]().eval())


class Play:
    """A play turn by turn: `rewinds` part its sequences, of which each is trained in its last `said` tokens.

    `turns`: for each, how many tokens of the context stay, the tokens read and the tokens said.
    """

    def __init__(self, turns, rng):
        stream, mask, logprobs, rewinds, context = [], [], [], [], []
        self.sequences = []
        for index, (kept, read, said) in enumerate(turns):
            if index:
                rewinds.append((len(stream), kept))
            context = [*context[:kept], *read, *said]
            behaviour = (-3 + 0.6 * rng.normal(size=len(said))).astype(np.float32).tolist()
            self.sequences.append((context, len(said), behaviour))
            stream += [*read, *said]
            mask += [False] * len(read) + [True] * len(said)
            logprobs += behaviour
        self.trained = sum(mask)
        self.trajectory = Trajectory(
            codec.pack_ids(stream), pack_mask(mask), codec.pack_floats(logprobs), ((1, self.trained),),
            TEMPERATURE, rewinds=tuple(rewinds),
        )  # fmt: skip


def tokens(rng, count):
    return rng.integers(0, VOCABULARY, count).tolist()


def stripped(rng, prompt, turns):
    """A play whose later turns see of each answer its last tokens alone, as with `play.thoughts = "strip"`."""
    found, context = [], 0
    for turn in range(turns):
        read = prompt if not turn else [*found[-1][2][-3:], *tokens(rng, 4)]
        found.append((context, read, tokens(rng, 6)))
        context += len(read)
    return Play(found, rng)


def batch_of(seed=0):
    """Groups of plays with a common prompt, two with a common first answer, and one of designs; and their records."""
    rng = np.random.default_rng(seed)
    system = tokens(rng, 20)  # of every prompt
    answer = tokens(rng, 5)
    first, second, design = ([*system, *tokens(rng, count)] for count in (12, 3, 25))
    plays = [
        [stripped(rng, first, turns) for turns in (1, 3, 2)],
        [Play([(0, second, [*answer, *more])], rng) for more in (tokens(rng, 4), [], tokens(rng, 2), tokens(rng, 2))],
        [Play([(0, design, tokens(rng, 8))], rng) for _ in range(2)],
    ]
    groups = tuple(
        Group(str(at), ("agent", "agent", "designer")[at], tuple(rng.random(len(each)).tolist()),
              tuple(play.trajectory for play in each))
        for at, each in enumerate(plays)
    )  # fmt: skip
    return plays, groups


def wanted(*overrides):
    return config.load("nano", ("learner.max_grad_norm=1e9", "learner.designer_weight_max=32.0", *overrides))


def gradient(model):
    return torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])


@functools.cache
def expect(name):
    """The loss and the gradient of the first batch, sequence by sequence."""
    return by_the_book(make(name), *batch_of(), wanted().loss)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(("limit", "recompute"), [(1, False), (90, False), (90, True), (10_000, False)])
def test_a_step_has_the_loss_and_the_gradient_of_its_sequences_one_by_one(name, limit, recompute):
    settings = wanted(
        f"learner.microbatch_tokens={limit}", f"learner.activation_checkpointing={str(recompute).lower()}"
    )
    loss, expected = expect(name)
    tested = TorchBackend(make(name).model, settings)
    metrics = tested.train(Batch(1, 1, batch_of()[1]))
    assert tested.model.config._attn_implementation == PACKED
    assert metrics.loss == pytest.approx(loss, abs=1e-5)
    assert torch.dist(gradient(tested.model), expected) < 1e-4 * expected.norm()
    assert metrics.computed_fraction < {1: 1.01, 90: 0.75, 10_000: 0.5}[limit]


@pytest.mark.parametrize("aggregation", ["token", "sequence"])
@pytest.mark.parametrize("kind", ["tis", "sequence_tis", "gspo"])
def test_every_loss_keeps_a_sequence_s_own_tokens_apart(kind, aggregation):
    policy = make("qwen3")
    settings = wanted(f"loss.kind={kind}", f"loss.aggregation={aggregation}")
    plays, groups = batch_of(1)
    loss, expected = by_the_book(policy, plays, groups, settings.loss)
    tested = TorchBackend(copy.deepcopy(policy.model), settings)
    assert tested.train(Batch(1, 1, groups)).loss == pytest.approx(loss, abs=1e-5)
    assert torch.dist(gradient(tested.model), expected) < 1e-4 * expected.norm()


def test_a_model_with_its_own_attention_computes_every_sequence_whole():
    torch.manual_seed(11)
    sizes = SIZES | {"sliding_window": 20, "num_local_experts": 2}
    policy = Policy(PhimoeForCausalLM(PhimoeConfig(**sizes, attn_implementation="sdpa")).eval())
    plays, groups = batch_of()
    loss, expected = by_the_book(policy, plays, groups, wanted().loss)
    tested = TorchBackend(copy.deepcopy(policy.model), wanted())
    metrics = tested.train(Batch(1, 1, groups))
    assert not shares_beginnings(tested.model)
    assert metrics.computed_fraction == 1
    assert metrics.loss == pytest.approx(loss, abs=1e-5)
    assert torch.dist(gradient(tested.model), expected) < 1e-4 * expected.norm()


@st.composite
def forests(draw):
    """Plays of one sequence each, of which many begin like an earlier one; lengths around the least and the window."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    found = [tokens(rng, draw(st.integers(2, 40)))]
    for _ in range(draw(st.integers(1, 6))):
        parent = draw(st.sampled_from(found))
        kept = draw(st.integers(1, len(parent)))
        found.append([*parent[:kept], *tokens(rng, draw(st.integers(1, 30)))])
    return [Play([(0, ids[:at], ids[at:])], rng) for ids in found for at in [draw(st.integers(1, len(ids) - 1))]]


@functools.cache
def make_prepared(name):
    policy = make(name)
    prepare_model(policy.model, activation_checkpointing=False)
    return policy


@pytest.mark.parametrize("name", ["qwen3", WINDOWED])  # the attention of the others is that of qwen3
@settings(max_examples=25)
@given(plays=forests(), limit=st.integers(1, 200))
def test_any_forest_gives_each_sequence_s_values_and_gradients(name, plays, limit):
    policy = make_prepared(name)
    groups = [Group("g", "agent", (0.0,) * len(plays), tuple(play.trajectory for play in plays))]
    found = []
    for share in (True, False):
        policy.model.zero_grad()
        scores = []
        for micro in prepare(groups, limit if share else 1, 32, share=share).micro:
            current, entropy = compute_trained_logprobs(policy.model, micro)
            ((current * micro.behaviour).sum()).backward()
            scores.append(torch.stack([current.detach(), entropy, micro.behaviour]))
        found.append((torch.cat(scores, 1), gradient(policy.model)))
    (shared, ours), (alone, expected) = found
    exact = []
    for play in plays:
        ids, count, _ = play.sequences[0]
        exact += policy.logprobs(np.array(ids, np.int32), TEMPERATURE)[-count:].tolist()
    assert torch.allclose(shared, alone, atol=1e-4)
    assert np.allclose(sorted(exact), sorted(shared[0].tolist()), atol=1e-4)
    assert torch.dist(ours, expected) < 1e-4 * expected.norm()


def test_a_window_counts_the_positions_of_the_shared_beginning():
    """With a window of 7 the last layer's suffix sees the prompt's end alone: one token earlier changes nothing."""
    policy, rng = make_prepared(WINDOWED), np.random.default_rng(5)
    sliding = copy.deepcopy(policy.model)
    for layer in sliding.model.layers:
        layer.self_attn.sliding_window = 7
    prompt = tokens(rng, 60)
    other = [(prompt[0] + 1) % VOCABULARY, *prompt[1:]]  # beyond the reach of four layers of windows

    def scores(beginning):
        rng = np.random.default_rng(6)
        plays = [Play([(0, beginning, tokens(rng, 5))], rng) for _ in range(3)]
        (micro,) = prepare([Group("g", "agent", (0.0,) * 3, tuple(one.trajectory for one in plays))], 500, 32).micro
        assert len(micro.lengths) == 4
        with torch.no_grad():
            return compute_trained_logprobs(sliding, micro)[0]

    assert torch.equal(scores(prompt), scores(other))


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_step_is_the_same_to_the_last_bit(threads):
    """Many sequences train a token behind one position; two threads must add their gradients in one order."""
    rng = np.random.default_rng(3)
    prompt = tokens(rng, 40)
    plays = [Play([(0, prompt, tokens(rng, 30))], rng) for _ in range(120)]
    group = Group("g", "agent", tuple(rng.random(120).tolist()), tuple(play.trajectory for play in plays))
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = []
        for _ in range(1 + threads):
            tested = TorchBackend(make("llama").model, wanted())
            metrics = tested.train(Batch(1, 1, (group,)))
            found.append((metrics, torch.cat([one.detach().flatten() for one in tested.model.parameters()])))
    finally:
        torch.set_num_threads(before)
    for metrics, parameters in found[1:]:
        assert metrics == found[0][0]
        assert torch.equal(parameters, found[0][1])


@pytest.mark.usefixtures("large_eps")
@pytest.mark.parametrize("overrides", [
    ("loss.kl=0.1", "learner.steps_per_batch=3", "learner.lr=1e-3"),
    ("model.dtype=bfloat16",),
])  # fmt: skip
def test_a_reference_several_steps_and_bfloat16_share_as_well(overrides):
    """Against the same backend with one sequence in a micro-batch, which has nothing to share."""
    groups, found = batch_of(2)[1], []
    reference = make("qwen3").model if "loss.kl=0.1" in overrides else None
    for limit in (1, 10_000):
        settings = wanted(*overrides, f"learner.microbatch_tokens={limit}")
        tested = TorchBackend(make("qwen3").model, settings, copy.deepcopy(reference))
        found.append((tested.train(Batch(1, 1, groups)), gradient(tested.model)))
    (alone, expected), (shared, ours) = found
    most = 0.05 if reference is None else 1e-3
    assert shared.computed_fraction < 0.5 < alone.computed_fraction
    assert shared.loss == pytest.approx(alone.loss, abs=most)
    assert shared.kl == pytest.approx(alone.kl, rel=1e-3)
    assert torch.dist(ours, expected) < most * expected.norm()
