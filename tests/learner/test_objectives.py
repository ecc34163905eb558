"""The torch back-end under every loss: its numbers are those of a plain loop over sequences, however they are cut."""

import copy

import msgspec
import numpy as np
import pytest
import torch

from learner.backends.opening import open_backend
from learner.backends.torch import TorchBackend
from learner.loss import KINDS
from spade import config
from spade.protocol import Batch
from tests.learner.plain_losses import plain, plain_mean
from tests.learner.plain_steps import by_the_book, parameters, sequences

pytestmark = pytest.mark.usefixtures("large_eps")
QUICK = ("learner.lr=1e-3", "learner.microbatch_tokens=40", "learner.designer_weight_max=32.0")


def settings(*overrides):
    return config.load("nano", (*QUICK, *overrides))


def backend(policy, *overrides, reference=None):
    return TorchBackend(copy.deepcopy(policy.model), settings(*overrides), reference)


def scored(policy, groups):
    """(current, old, behaviour, advantage) and the weight of each trajectory, as the plain losses take them."""
    members, weights = [], []
    for ids, mask, behaviour, advantage, weight, _ in sequences(groups):
        with torch.no_grad():
            current = policy.logprobs(ids, 0.7)[mask].double().tolist()
        members.append((current, current, behaviour.double().tolist(), advantage))
        weights.append(weight)
    return members, weights


@pytest.mark.parametrize("aggregation", ["token", "sequence"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_loss_is_the_plain_one_however_it_is_cut(policy, kind, aggregation):
    chosen = (f"loss.kind={kind}", f"loss.aggregation={aggregation}")
    groups = policy.groups(1, off=0.8)
    found = []
    for limit in (1, 40, 10_000):
        tested = backend(policy, *chosen, f"learner.microbatch_tokens={limit}")
        metrics = tested.train(Batch(1, 1, groups))
        found.append(parameters(tested.model))
    members, weights = scored(policy, groups)
    wanted = settings(*chosen).loss
    assert metrics.loss == pytest.approx(plain_mean(members, weights, wanted), abs=1e-5)
    flags = np.array([row[1:] for member in members for row in plain(member, wanted)]).mean(axis=0)
    assert [metrics.clip_fraction, metrics.truncated_fraction, metrics.masked_fraction] == pytest.approx(flags)
    assert torch.allclose(found[0], found[1], atol=1e-6)
    assert torch.allclose(found[0], found[2], atol=1e-6)


def test_several_steps_a_batch_are_those_by_the_book(policy):
    chosen = ("learner.steps_per_batch=4", "learner.lr=1e-2")
    tested, batch = backend(policy, *chosen), Batch(1, 1, policy.groups(1, off=0.5))
    metrics = tested.train(batch)
    steps = by_the_book(policy, batch, settings(*chosen))
    assert metrics.clip_fraction > 0.05  # the later steps were clipped
    assert metrics.loss == pytest.approx(np.mean([step.loss for step in steps]), abs=1e-4)
    assert torch.allclose(parameters(tested.model), parameters(policy.model), atol=2e-5)


def test_the_kl_to_the_reference_is_the_one_by_the_book(policy):
    chosen = ("loss.kl=0.3", "learner.steps_per_batch=3")
    elsewhere = copy.deepcopy(policy)
    with torch.no_grad():
        for parameter in elsewhere.model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    batch = Batch(1, 1, policy.groups(1, off=0.5))
    tested = backend(policy, *chosen, reference=elsewhere.model)
    before = parameters(elsewhere.model)
    metrics = tested.train(batch)
    assert metrics.designer_weight > 2  # it leaves the KL of the designer's tokens alone
    steps = by_the_book(policy, batch, settings(*chosen), elsewhere)
    assert metrics.kl > 0.01
    assert metrics.loss == pytest.approx(np.mean([step.loss for step in steps]), abs=1e-4)
    assert torch.allclose(parameters(tested.model), parameters(policy.model), atol=2e-5)
    assert torch.equal(parameters(elsewhere.model), before)


def test_a_strong_kl_keeps_the_policy_near_the_reference(policy):
    def drift(coefficient):
        tested = backend(policy, f"loss.kl={coefficient}", reference=copy.deepcopy(policy.model))
        return [tested.train(Batch(step, 1, policy.groups(1))).kl for step in range(1, 9)]

    free, held = drift(1e-6), drift(5.0)
    assert free[0] == held[0] == 0  # the reference is where the run starts
    assert held[-1] < free[-1] / 3


def test_the_reference_is_the_starting_checkpoint_and_loaded_only_where_it_counts(checkpoint_folder, policy):
    for coefficient in (0.0, 0.1):
        chosen = settings(f"model.path={checkpoint_folder}", f"loss.kl={coefficient}")
        tested, _ = open_backend(chosen, None)
        metrics = [tested.train(Batch(step, 1, policy.groups(step))) for step in (1, 2)]
        assert metrics[0].kl == 0
        assert (metrics[1].kl > 0) == (coefficient > 0)


def test_the_rate_follows_the_schedule_and_goes_on_where_a_resume_left_it(policy, tmp_path):
    chosen = ("learner.schedule=cosine", "learner.warmup_steps=2", "learner.schedule_steps=6", "learner.lr_min=1e-5")
    straight, rates = backend(policy, *chosen), []
    for step in range(1, 8):
        rates.append(straight.train(Batch(step, 1, policy.groups(step))).lr)
        if step == 4:
            straight.save(tmp_path)
    cosine = [1e-5 + (1e-3 - 1e-5) * (1 + np.cos(np.pi * part / 3)) / 2 for part in range(4)]
    assert rates == pytest.approx([1e-3 / 3, 2e-3 / 3, *cosine, 1e-5])
    resumed = backend(policy, *chosen)
    resumed.load(tmp_path)
    for step in range(5, 8):
        assert resumed.train(Batch(step, 1, policy.groups(step))).lr == rates[step - 1]
    assert torch.equal(parameters(resumed.model), parameters(straight.model))


def test_a_step_is_taken_at_its_rate(policy):
    warming, plain = backend(policy, "learner.lr=0.003", "learner.warmup_steps=2"), backend(policy, "learner.lr=0.001")
    for tested in (warming, plain):
        assert tested.train(Batch(1, 1, policy.groups(1))).lr == 0.001
    assert torch.equal(parameters(warming.model), parameters(plain.model))


def test_the_mismatch_is_told_apart_by_the_lag_of_each_token(policy):
    """Each trajectory was sampled by version 3 and, but for its first token, by version 5 or 6; trained at 6."""
    rng = np.random.default_rng(0)
    groups = []
    for group in policy.groups(1, off=0.5):
        members = []
        for member in group.trajectories:
            sampled, later = sum(count for _, count in member.versions), int(rng.choice([5, 6]))
            members.append(msgspec.structs.replace(member, versions=((3, 1), (later, sampled - 1))))
        groups.append(msgspec.structs.replace(group, trajectories=tuple(members)))
    metrics = backend(policy).train(Batch(1, 6, tuple(groups)))
    seen: dict[int, list[float]] = {}
    for ids, mask, behaviour, _, _, runs in sequences(groups):
        with torch.no_grad():
            gaps = (policy.logprobs(ids, 0.7)[mask] - behaviour).abs().tolist()
        for gap, version in zip(gaps, np.repeat(*np.array(runs).T), strict=True):
            seen.setdefault(6 - int(version), []).append(gap)
    assert metrics.tokens_by_lag == tuple(len(seen.get(lag, ())) for lag in range(4))
    assert metrics.tokens_by_lag[3] == 11  # the trajectories
    expected = [float(np.mean(seen[lag])) if lag in seen else 0.0 for lag in range(4)]
    assert metrics.mismatch_by_lag == pytest.approx(expected, rel=1e-4)


def test_lags_beyond_those_told_apart_share_the_last_place(policy):
    metrics = backend(policy, "learner.steps_per_batch=2").train(Batch(1, 500, policy.groups(1)))
    assert metrics.tokens_by_lag == (0,) * 15 + (metrics.trained_tokens,)
