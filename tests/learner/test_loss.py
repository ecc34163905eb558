"""The losses against plain ones in floats, by finite differences, and in the cases where each becomes another."""

import math

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learner import loss
from learner.loss import KINDS, Tokens, average_loss, compute_denominator, compute_token_losses, count_lengths, k3
from spade.config import Loss
from tests.learner.plain_losses import plain, plain_mean

logprob = st.floats(-8, -0.01)
# A sequence: (current, old, behaviour) of each token, and its advantage.
sequences = st.lists(
    st.tuples(st.lists(st.tuples(logprob, logprob, logprob), min_size=1, max_size=6), st.floats(-3, 3)),
    min_size=1, max_size=5,
)  # fmt: skip
every_kind = pytest.mark.parametrize("kind", KINDS)


def members(drawn):
    """As `plain` takes them."""
    return [(*map(list, zip(*tokens, strict=True)), advantage) for tokens, advantage in drawn]


def tokens_of(members, order=None):
    """As `token_losses` takes them, in float64; `order` shuffles the tokens."""
    rows = [
        (*row, advantage, index)
        for index, (current, old, behaviour, advantage) in enumerate(members)
        for row in zip(current, old, behaviour, strict=True)
    ]
    *columns, sequence = zip(*(rows if order is None else [rows[index] for index in order]), strict=True)
    values = [torch.tensor(column, dtype=torch.float64) for column in columns]
    return Tokens(*values, torch.tensor(sequence), torch.ones_like(values[0]))


def some(seed, spread=1.0, count=6):
    """Sequences well off their policies: some tokens clipped, some weights over any bound."""
    rng = np.random.default_rng(seed)
    made = []
    for length in rng.integers(1, 7, count):
        old = rng.uniform(-5, -0.5, length)
        current, behaviour = old + 0.3 * spread * rng.normal(size=length), old + spread * rng.normal(size=length)
        made.append((current.tolist(), old.tolist(), behaviour.tolist(), float(rng.normal())))
    return made


def gradient(tokens, settings):
    current = tokens.current.clone().requires_grad_()
    compute_token_losses(tokens._replace(current=current), settings).loss.sum().backward()
    return current.grad


@every_kind
@given(drawn=sequences, cap=st.floats(0.5, 5), low=st.floats(0.05, 0.9), high=st.floats(0.05, 2), data=st.data())
def test_equals_the_plain_formula_in_any_order_of_tokens(kind, drawn, cap, low, high, data):
    settings = Loss(kind=kind, cap=cap, clip_low=low, clip_high=high)
    rows = [row for member in members(drawn) for row in plain(member, settings)]
    order = data.draw(st.permutations(range(len(rows))))
    found = compute_token_losses(tokens_of(members(drawn), order), settings)
    assert found.loss.tolist() == pytest.approx([rows[index][0] for index in order], rel=1e-9, abs=1e-12)


@every_kind
def test_clipped_truncated_and_masked_tokens_are_the_plain_ones(kind):
    settings = Loss(kind=kind)
    made = some(1, count=60)
    found = compute_token_losses(tokens_of(made), settings)
    expected = np.array([row[1:] for member in made for row in plain(member, settings)]).T
    assert [found.clipped.tolist(), found.truncated.tolist(), found.masked.tolist()] == expected.tolist()
    seen = {"tis": (1, 1, 0), "icepop": (1, 0, 1), "sequence_tis": (1, 1, 0), "cispo": (0, 1, 0), "gspo": (1, 0, 0)}
    assert expected.any(axis=1).tolist() == [bool(one) for one in seen[kind]]


@every_kind
@pytest.mark.parametrize("seed", range(5))
def test_the_gradient_equals_finite_differences_of_the_plain_formula(kind, seed):
    settings, made, step = Loss(kind=kind), some(seed), 1e-6
    expected = []
    for current, old, behaviour, advantage in made:
        for index in range(len(current)):
            sums = []
            for shift in (step, -step):
                moved = [value + shift * (at == index) for at, value in enumerate(current)]
                sums.append(sum(row[0] for row in plain((moved, old, behaviour, advantage), settings, frozen=current)))
            expected.append((sums[0] - sums[1]) / (2 * step))
    assert gradient(tokens_of(made), settings).tolist() == pytest.approx(expected, rel=1e-6, abs=1e-7)


def test_the_gradient_over_logits_at_a_temperature_equals_finite_differences():
    """Several steps off the old policy, some tokens clipped, some weights truncated; away from the kinks."""
    torch.manual_seed(3)
    logits = torch.randn(12, 5, dtype=torch.float64, requires_grad=True)
    target = torch.randint(0, 5, (12,))
    old = torch.log_softmax(logits.detach() + 0.4 * torch.randn(12, 5), -1)[torch.arange(12), target]
    behaviour, advantage = old + torch.randn(12), torch.randn(12, dtype=torch.float64)
    reference = old + torch.randn(12)

    def loss(logits):
        current = torch.log_softmax(logits / 0.6, -1)[torch.arange(12), target]
        tokens = Tokens(current, old, behaviour, advantage, torch.arange(12) // 4, torch.ones(12), reference)
        return compute_token_losses(tokens, Loss(kl=0.3)).loss.mean()

    assert torch.autograd.gradcheck(loss, logits, eps=1e-6, atol=1e-7)


@every_kind
@given(drawn=sequences)
def test_on_policy_every_kind_is_the_policy_gradient(kind, drawn):
    on_policy = [(current, current, current, advantage) for current, _, _, advantage in members(drawn)]
    tokens = tokens_of(on_policy)
    assert gradient(tokens, Loss(kind=kind)).tolist() == pytest.approx((-tokens.advantage).tolist())


def test_under_a_huge_cap_the_weight_is_the_whole_ratio():
    made = some(2)
    tokens = tokens_of(made)._replace(current=tokens_of(made).old)
    ratio = torch.exp(tokens.old - tokens.behaviour)
    product = torch.exp(torch.tensor([sum(old) - sum(mu) for _, old, mu, _ in made], dtype=torch.float64))
    weights = {"tis": ratio, "cispo": ratio, "sequence_tis": product[tokens.sequence]}
    for kind, weight in weights.items():
        assert torch.allclose(gradient(tokens, Loss(kind=kind, cap=1e9)), -weight * tokens.advantage)
        assert not torch.allclose(gradient(tokens, Loss(kind=kind, cap=2.0)), -weight * tokens.advantage)


def test_without_bounds_icepop_is_tis_without_a_cap(monkeypatch):
    monkeypatch.setattr(loss, "MASK_LOW", 1e-9)
    monkeypatch.setattr(loss, "MASK_HIGH", 1e9)
    tokens = tokens_of(some(3))
    wide = compute_token_losses(tokens, Loss(kind="icepop"))
    assert torch.allclose(wide.loss, compute_token_losses(tokens, Loss(cap=1e9)).loss)


def test_with_every_token_masked_there_is_no_loss_and_no_gradient():
    made = [(current, old, [value - 3.0 for value in old], 1.0) for current, old, _, _ in some(4)]
    settings = Loss(kind="icepop")
    found = compute_token_losses(tokens_of(made), settings)
    assert found.masked.all()
    assert not found.loss.any()
    assert not gradient(tokens_of(made), settings).any()


def test_sequences_of_one_token_know_no_difference_between_levels():
    made = [
        ([c], [o], [b], a) for current, old, behaviour, a in some(5) for c, o, b in [(current[0], old[0], behaviour[0])]
    ]
    tokens = tokens_of(made)
    assert torch.equal(
        compute_token_losses(tokens, Loss(kind="sequence_tis")).loss, compute_token_losses(tokens, Loss()).loss
    )
    against_mu = tokens._replace(old=tokens.behaviour)  # PPO's own surrogate, whose old policy is the sampler
    assert torch.allclose(
        compute_token_losses(tokens, Loss(kind="gspo")).loss, compute_token_losses(against_mu, Loss()).loss
    )


@given(drawn=sequences)
def test_with_one_step_a_batch_cispo_has_the_gradient_of_tis(drawn):
    tokens = tokens_of([(old, old, behaviour, advantage) for _, old, behaviour, advantage in members(drawn)])
    assert torch.allclose(gradient(tokens, Loss(kind="cispo")), gradient(tokens, Loss()))


@pytest.mark.parametrize("kind", ["tis", "icepop", "sequence_tis"])
@pytest.mark.parametrize(("log_ratio", "advantage", "moves"), [
    (0.3, 1, False), (0.3, -1, True), (-0.3, 1, True), (-0.3, -1, False), (0.1, 1, True), (-0.1, -1, True),
])  # fmt: skip
def test_a_clipped_token_stops_pulling_further_but_may_come_back(kind, log_ratio, advantage, moves):
    tokens = tokens_of([([-2 + log_ratio], [-2.0], [-2.0], float(advantage))])
    assert (gradient(tokens, Loss(kind=kind)).item() != 0) == moves


@every_kind
def test_no_gradient_flows_but_through_the_current_policy(kind):
    tokens = tokens_of([([-1.0, -2.0], [-1.2, -2.1], [-1.5, -2.2], 0.7)])
    tokens = tokens._replace(reference=tokens.old.clone())
    leaves = [value.requires_grad_() for value in tokens if value.is_floating_point()]
    compute_token_losses(tokens, Loss(kind=kind, kl=0.1)).loss.sum().backward()
    assert tokens.current.grad is not None
    assert all(value.grad is None for value in leaves if value is not tokens.current)


@every_kind
@pytest.mark.parametrize("advantage", [2.0, -2.0, 0.0])
def test_an_absurd_ratio_gives_no_infinity(kind, advantage):
    current = torch.tensor([-1.0, -900.0, -900.0, -1.0], requires_grad=True)
    old, behaviour = torch.tensor([-900.0, -1.0, -1.0, -900.0]), torch.tensor([-1.0, -900.0, -1.0, -900.0])
    advantages, reference = torch.full((4,), advantage), torch.full((4,), -3.0)
    tokens = Tokens(current, old, behaviour, advantages, torch.arange(4), torch.ones(4), reference)
    losses = compute_token_losses(tokens, Loss(kind=kind, kl=0.1))
    losses.loss.sum().backward()
    assert torch.isfinite(losses.loss).all()
    assert torch.isfinite(current.grad).all()


@given(st.lists(st.tuples(logprob, logprob), min_size=1, max_size=20), st.floats(0.001, 1))
def test_the_kl_term_is_k3_of_each_token(drawn, coefficient):
    current, reference = (torch.tensor(column, dtype=torch.float64) for column in zip(*drawn, strict=True))
    found = k3(current, reference)
    assert found.tolist() == pytest.approx([math.exp(r) / math.exp(c) - 1 - (r - c) for c, r in drawn], abs=1e-9)
    assert (found >= -1e-15).all()
    ones, sequence = torch.ones_like(current), torch.zeros(len(drawn), dtype=torch.int64)
    tokens = Tokens(current, current, current, ones, sequence, ones)
    without, held = (
        compute_token_losses(tokens._replace(reference=one), Loss(kl=coefficient)) for one in (None, reference)
    )
    assert torch.allclose(held.loss - without.loss, coefficient * found)
    assert torch.equal(held.kl, found)
    assert not without.kl.any()


def test_k3_has_the_kl_as_its_mean_over_the_policy():
    torch.manual_seed(0)
    policy, reference = torch.log_softmax(torch.randn(2, 30, dtype=torch.float64), -1)
    assert (policy.exp() * k3(policy, reference)).sum() == pytest.approx(
        (policy.exp() * (policy - reference)).sum().item()
    )


def test_the_weight_multiplies_the_advantage_and_not_the_kl_by_hand():
    """On policy, reference = 2 pi: k3 = 2 - 1 - log 2 = 0.306853 a token; the gain is the advantage itself."""
    at = torch.tensor([-1.0, -1.0], dtype=torch.float64, requires_grad=True)
    tokens = Tokens(
        at, at, at, torch.tensor([0.5, 0.5]), torch.tensor([0, 1]), torch.tensor([1.0, 32.0]), at + math.log(2)
    )
    losses = compute_token_losses(tokens, Loss(kl=0.005))
    assert losses.loss.tolist() == pytest.approx([-0.5 + 0.005 * 0.306853, -16.0 + 0.005 * 0.306853], abs=1e-7)
    assert losses.unweighted.tolist() == pytest.approx([-0.5 + 0.005 * 0.306853] * 2, abs=1e-7)
    losses.loss.sum().backward()  # of k3 by log pi: 1 - q = -1
    assert at.grad.tolist() == pytest.approx([-0.5 - 0.005, -16.0 - 0.005])


@every_kind
@given(drawn=sequences, weight=st.floats(0.1, 32), coefficient=st.floats(0.001, 1))
def test_a_weight_is_a_larger_advantage_under_every_kind_and_leaves_the_kl_alone(kind, drawn, weight, coefficient):
    settings, tokens = Loss(kind=kind, kl=coefficient), tokens_of(members(drawn))
    tokens = tokens._replace(reference=tokens.old - 0.5)
    weighted = tokens._replace(weight=torch.full_like(tokens.weight, weight))
    larger = tokens._replace(advantage=weight * tokens.advantage)
    found, wanted, plain_ones = (compute_token_losses(one, settings) for one in (weighted, larger, tokens))
    assert torch.allclose(found.loss, wanted.loss)
    assert torch.allclose(gradient(weighted, settings), gradient(larger, settings))
    assert torch.equal(found.unweighted, plain_ones.loss)
    assert torch.equal(found.kl, plain_ones.kl)


@pytest.mark.parametrize("aggregation", ["token", "sequence"])
@every_kind
def test_a_batch_is_averaged_as_the_plain_one_however_it_is_cut(kind, aggregation):
    settings = Loss(kind=kind, aggregation=aggregation)
    made = some(6)
    weights = [1.0, 2.5, 1.0, 2.5, 1.0, 1.0]
    for parts in ([made], [made[:2], made[2:]], [[one] for one in made]):
        at, total = 0, 0.0
        for part in parts:
            tokens = tokens_of(part)
            weight = torch.tensor(weights[at : at + len(part)], dtype=torch.float64)[tokens.sequence]
            losses = compute_token_losses(tokens._replace(weight=weight), settings).loss
            total += average_loss(losses, count_lengths(tokens.sequence), settings).sum().item()
            at += len(part)
        count = compute_denominator(sum(len(one[0]) for one in made), len(made), settings)
        assert total / count == pytest.approx(plain_mean(made, weights, settings), rel=1e-9)


def test_lengths_count_the_tokens_of_each_sequence():
    assert count_lengths(torch.tensor([2, 0, 2, 2, 1])).tolist() == [3, 1, 3, 3, 1]


def test_every_kind_of_the_config_has_its_function():
    (kinds,) = (field.type for field in msgspec.inspect.type_info(Loss).fields if field.name == "kind")
    assert set(kinds.values) == set(KINDS)
