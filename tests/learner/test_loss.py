import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learner.loss import Tokens, token_losses
from spade.config import Loss

SETTINGS = Loss()
logprob = st.floats(-8, -0.01)


def plain(current, old, behaviour, advantage, settings):
    """The formula of one token, with nothing but floats."""
    weight = min(math.exp(old) / math.exp(behaviour), settings.cap)
    ratio = math.exp(current) / math.exp(old)
    clipped = max(1 - settings.clip_low, min(ratio, 1 + settings.clip_high))
    return -weight * min(ratio * advantage, clipped * advantage)


def tis(current, old, behaviour, advantage, settings):
    sequence = torch.zeros(len(current), dtype=torch.int64)
    return token_losses(Tokens(current, old, behaviour, advantage, sequence), settings).loss


def tensors(*columns):
    return [torch.tensor(column, dtype=torch.float64) for column in columns]


@given(
    st.lists(st.tuples(logprob, logprob, logprob, st.floats(-3, 3)), min_size=1, max_size=20),
    st.floats(0.5, 5), st.floats(0.05, 0.9), st.floats(0.05, 2),
)  # fmt: skip
def test_equals_the_plain_formula(tokens, cap, low, high):
    settings = Loss(cap=cap, clip_low=low, clip_high=high)
    expected = [plain(*token, settings) for token in tokens]
    assert tis(*tensors(*zip(*tokens, strict=True)), settings).tolist() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@given(st.lists(st.tuples(logprob, st.floats(-3, 3)), min_size=1, max_size=20))
def test_on_policy_it_is_the_policy_gradient(tokens):
    current, advantage = tensors(*zip(*tokens, strict=True))
    current.requires_grad_()
    tis(current, current.detach(), current.detach(), advantage, SETTINGS).sum().backward()
    assert current.grad.tolist() == pytest.approx((-advantage).tolist())


def test_under_a_huge_cap_the_weight_is_the_whole_ratio():
    current, old, behaviour, advantage = tensors([-1.0, -6.0], [-1.0, -6.0], [-5.0, -1.0], [1.0, -2.0])
    loss = tis(current, old, behaviour, advantage, Loss(cap=1e9))
    assert loss.tolist() == pytest.approx([-math.exp(4), 2 * math.exp(-5)])
    truncated = tis(current, old, behaviour, advantage, Loss(cap=2.0))
    assert truncated.tolist() == pytest.approx([-2, 2 * math.exp(-5)])


@pytest.mark.parametrize(
    ("log_ratio", "advantage", "moves"),
    [(0.3, 1, False), (0.3, -1, True), (-0.3, 1, True), (-0.3, -1, False), (0.1, 1, True), (-0.1, -1, True)],
)
def test_a_clipped_token_stops_pulling_further_but_may_come_back(log_ratio, advantage, moves):
    current, old, advantages = tensors([-2 + log_ratio], [-2.0], [float(advantage)])
    current.requires_grad_()
    tis(current, old, old, advantages, SETTINGS).sum().backward()
    assert (current.grad.item() != 0) == moves


def test_no_gradient_flows_through_old_behaviour_or_advantage():
    current, *others = [value.requires_grad_() for value in tensors([-1.0], [-1.2], [-1.5], [0.7])]
    tis(current, *others, SETTINGS).sum().backward()
    assert current.grad is not None
    assert all(value.grad is None for value in others)


def test_gradient_over_logits_equals_finite_differences():
    """Several steps off the old policy, some tokens clipped, some weights truncated; away from the kinks."""
    torch.manual_seed(3)
    logits = torch.randn(12, 5, dtype=torch.float64, requires_grad=True)
    target = torch.randint(0, 5, (12,))
    old = torch.log_softmax(logits.detach() + 0.4 * torch.randn(12, 5), -1)[torch.arange(12), target]
    behaviour = old + torch.randn(12)
    advantage = torch.randn(12, dtype=torch.float64)

    def loss(logits):
        current = torch.log_softmax(logits / 0.6, -1)[torch.arange(12), target]
        return tis(current, old, behaviour, advantage, SETTINGS).mean()

    assert torch.autograd.gradcheck(loss, logits, eps=1e-6, atol=1e-7)


@pytest.mark.parametrize("advantage", [2.0, -2.0, 0.0])
def test_an_absurd_ratio_gives_no_infinity(advantage):
    current = torch.tensor([-1.0, -900.0], requires_grad=True)
    old, behaviour = torch.tensor([-900.0, -1.0]), torch.tensor([-1.0, -900.0])
    losses = tis(current, old, behaviour, torch.full((2,), advantage), SETTINGS)
    losses.sum().backward()
    assert torch.isfinite(losses).all()
    assert torch.isfinite(current.grad).all()
