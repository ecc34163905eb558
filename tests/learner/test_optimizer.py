import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from learner.optimizer import NON_FINITE_MAX, Guard, compute_learning_rate, make_adamw, split_parameters
from spade.config import Learner
from spade.errors import RunError

COSINE = Learner(lr=1e-3, schedule="cosine", warmup_steps=9, schedule_steps=110, lr_min=1e-4)


def test_constant_is_the_very_number():
    assert {compute_learning_rate(step, Learner(lr=3e-4)) for step in (1, 2, 1_000_000)} == {3e-4}


def test_warm_up_rises_evenly_and_ends_at_the_rate():
    learner = Learner(lr=1.0, warmup_steps=4)
    assert [compute_learning_rate(step, learner) for step in range(1, 8)] == pytest.approx(
        [0.2, 0.4, 0.6, 0.8, 1, 1, 1]
    )


def test_cosine_falls_from_the_rate_through_the_middle_to_the_least():
    assert compute_learning_rate(10, COSINE) == pytest.approx(1e-3)
    assert compute_learning_rate(60, COSINE) == pytest.approx((1e-3 + 1e-4) / 2)
    assert compute_learning_rate(110, COSINE) == compute_learning_rate(10_000, COSINE) == pytest.approx(1e-4)


def test_it_is_the_schedule_of_torch():
    """Warm-up and cosine one after the other, whose state torch would have to keep; ours is a function of the step."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=COSINE.lr)
    warm = COSINE.warmup_steps
    rise = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / (warm + 1), 1.0, total_iters=warm)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, COSINE.schedule_steps - warm - 1, COSINE.lr_min)
    both = torch.optim.lr_scheduler.SequentialLR(optimizer, [rise, fall], [warm])
    for step in range(1, COSINE.schedule_steps + 1):
        assert compute_learning_rate(step, COSINE) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        optimizer.step()
        both.step()


@given(st.integers(1, 500), st.integers(0, 50), st.integers(52, 300), st.floats(0, 1e-3))
def test_the_rate_stays_in_its_range_and_never_rises_after_the_warm_up(step, warmup, until, least):
    learner = Learner(lr=1e-3, schedule="cosine", warmup_steps=warmup, schedule_steps=until, lr_min=least)
    rate = compute_learning_rate(step, learner)
    assert 0 <= rate <= 1e-3 * (1 + 1e-12)
    if step > warmup:
        assert least * (1 - 1e-12) <= compute_learning_rate(step + 1, learner) <= rate * (1 + 1e-12)


def test_matrices_decay_and_vectors_do_not():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4), torch.nn.Embedding(5, 4))
    decayed, plain = split_parameters(model.parameters(), 0.1)
    assert (decayed["weight_decay"], plain["weight_decay"]) == (0.1, 0.0)
    assert {id(one) for one in decayed["params"]} == {id(model[0].weight), id(model[2].weight)}
    assert {id(one) for one in plain["params"]} == {id(model[0].bias), id(model[1].weight), id(model[1].bias)}
    optimizer = make_adamw(model.parameters(), Learner(lr=0.1, weight_decay=0.5))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer.step()
    for old, new in zip(before, model.parameters(), strict=True):
        assert torch.allclose(new, old * (0.95 if new.dim() > 1 else 1.0))


def test_the_guard_counts_what_is_not_finite_in_a_row_and_then_stops():
    guard = Guard(count=3)
    assert not guard.passes(math.nan)
    assert guard.count == 4
    assert guard.passes(1e30)
    assert guard.count == 0
    for bad in [math.inf, -math.inf, math.nan] * 4:
        if guard.count == NON_FINITE_MAX:
            with pytest.raises(RunError, match=r"11 gradients .* learner\.lr"):
                guard.passes(bad)
            return
        assert not guard.passes(bad)
    pytest.fail("it never stopped")
