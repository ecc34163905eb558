import copy
import math
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
import trio
from safetensors.torch import load_file

from learner.backends.torch import TorchBackend
from learner.optimizer import NON_FINITE_MAX
from spade import config
from spade.errors import RunError
from spade.protocol import Batch, Group, Trajectory
from tests.learner.plain_steps import by_the_book, parameters, sequences

QUICK = (
    "learner.designer_weight_max=32.0", "learner.lr=1e-3", "learner.microbatch_tokens=40", "learner.weight_decay=0.1",
)  # fmt: skip


def backend(policy, *overrides):
    return TorchBackend(copy.deepcopy(policy.model), config.load("nano", (*QUICK, *overrides)))


def batch(policy, step, **options):
    return Batch(step, 1, policy.groups(step, **options))


@pytest.mark.usefixtures("large_eps")
@pytest.mark.parametrize("limit", [1, 40, 10_000])
def test_a_step_equals_the_plain_one_however_it_is_cut(policy, limit):
    tested = backend(policy, f"learner.microbatch_tokens={limit}")
    one = batch(policy, 1, off=0.8)
    metrics = tested.train(one)
    (plain,) = by_the_book(policy, one, config.load("nano", QUICK))
    assert torch.allclose(parameters(tested.model), parameters(policy.model), atol=1e-6)
    assert metrics.loss == pytest.approx(plain.loss, abs=1e-5)
    assert metrics.grad_norm == pytest.approx(plain.grad_norm, rel=1e-4)
    assert metrics.trained_tokens == plain.tokens
    assert (metrics.agent_sequences, metrics.designer_sequences) == (8, 3)
    assert metrics.designer_weight == pytest.approx(8 / 3)


@pytest.mark.parametrize("temperature", [0.6, 1.3])
def test_with_unchanged_weights_every_ratio_is_one(policy, temperature):
    metrics = backend(policy).train(batch(policy, 1, temperature=temperature))
    assert metrics.mismatch < 1e-4
    assert metrics.effective_sample_share == pytest.approx(1, abs=1e-4)
    assert metrics.truncated_fraction == metrics.clip_fraction == 0


def test_the_wrong_temperature_would_show(policy):
    groups = policy.groups(1, 0.6)
    replace = msgspec.structs.replace
    wrong = [
        replace(group, trajectories=tuple(replace(each, temperature=1.0) for each in group.trajectories))
        for group in groups
    ]
    assert backend(policy).train(Batch(1, 1, tuple(wrong))).mismatch > 0.05


def test_metrics_of_off_policy_tokens_are_the_plain_ones(policy):
    one = batch(policy, 1, off=0.8)
    log_w = []
    for ids, mask, behaviour, *_ in sequences(one.groups):
        with torch.no_grad():
            log_w += (policy.logprobs(ids, 0.7)[mask] - behaviour).tolist()
    metrics = backend(policy).train(one)
    weights = np.exp(log_w)
    assert metrics.mismatch == pytest.approx(np.abs(log_w).mean(), rel=1e-4)
    assert metrics.truncated_fraction == pytest.approx((weights > 2).mean())
    assert metrics.effective_sample_share == pytest.approx(
        weights.sum() ** 2 / (weights**2).sum() / len(weights), rel=1e-4
    )
    assert 0 < metrics.entropy < math.log(policy.model.config.vocab_size)


def test_rewarded_tokens_become_likelier(policy):
    tested = backend(policy, "learner.steps_per_batch=1")
    group = policy.groups(1)[0]
    won = int(np.argmax(group.rewards))

    def likelihoods():
        with torch.no_grad():
            policy.model.load_state_dict(tested.model.state_dict())
            return [policy.logprobs(ids, 0.7)[mask].mean().item() for ids, mask, *_ in sequences([group])]

    before = likelihoods()
    for step in range(1, 6):
        tested.train(Batch(step, 1, (group,)))
    after = likelihoods()
    lost = int(np.argmin(group.rewards))
    assert after[won] > before[won] + 0.1
    assert after[lost] < before[lost]


def test_several_steps_a_batch_measure_against_the_policy_before_the_first(policy):
    once = backend(policy, "learner.lr=1e-2").train(batch(policy, 1))
    often = backend(policy, "learner.lr=1e-2", "learner.steps_per_batch=6").train(batch(policy, 1))
    assert once.clip_fraction == 0
    assert often.clip_fraction > 0.1
    assert often.mismatch == pytest.approx(once.mismatch, abs=1e-5)  # pi_old against the sampler: no step moves it
    assert often.trained_tokens == once.trained_tokens


def spoiled(policy, step):
    """A batch in which one log-probability is not a number."""
    groups = policy.groups(step)
    member = groups[0].trajectories[0]
    logprobs = np.full(member.sampled, np.nan, "<f4").tobytes()
    broken = Trajectory(member.ids, member.spans, logprobs, member.versions, member.temperature)
    first = Group("a", "agent", groups[0].rewards, (broken, *groups[0].trajectories[1:]))
    return Batch(step, 1, (first, *groups[1:]))


def test_a_gradient_that_is_not_finite_is_left_out_and_counted(policy):
    tested = backend(policy)
    tested.train(batch(policy, 1))
    before = parameters(tested.model)
    metrics = tested.train(spoiled(policy, 2))
    assert metrics.skipped == 1
    assert torch.equal(parameters(tested.model), before)
    assert np.isfinite(np.hstack(msgspec.structs.astuple(metrics))).all()
    assert tested.step == 2
    assert tested.train(batch(policy, 3)).skipped == 0
    assert not torch.equal(parameters(tested.model), before)


def test_too_many_in_a_row_stop_the_run(policy, tmp_path):
    tested = backend(policy)
    for step in range(1, NON_FINITE_MAX):
        tested.train(spoiled(policy, step))
    tested.save(tmp_path)  # the count survives a restart
    resumed = backend(policy)
    resumed.load(tmp_path)
    resumed.train(spoiled(policy, NON_FINITE_MAX))
    with pytest.raises(RunError, match=r"11 gradients .* learner\.lr"):
        resumed.train(spoiled(policy, NON_FINITE_MAX + 1))


def test_a_resumed_learner_reaches_the_same_parameters_bit_for_bit(policy, tmp_path):
    straight, metrics = backend(policy), []
    for step in range(1, 7):
        metrics.append(straight.train(batch(policy, step, off=0.5)))
        if step == 3:
            straight.save(tmp_path)
    torch.manual_seed(1234)  # another process, another state
    resumed = backend(policy)
    resumed.load(tmp_path)
    assert resumed.step == 3
    assert [resumed.train(batch(policy, step, off=0.5)) for step in range(4, 7)] == metrics[3:]
    assert torch.equal(parameters(resumed.model), parameters(straight.model))
    states = []
    for one in (straight, resumed):
        one.save(tmp_path)
        states.append(load_file(tmp_path / "state.safetensors"))
        states[-1].pop("random")  # drawn from by the fixtures of this test
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert {name.split(".")[0] for name in states[0]} == {"parameter", "step", "exp_avg", "exp_avg_sq"}


def test_random_state_is_part_of_a_checkpoint(policy, tmp_path):
    tested = backend(policy)
    tested.save(tmp_path)
    expected = torch.rand(3)
    torch.manual_seed(99)
    tested.load(tmp_path)
    assert torch.equal(torch.rand(3), expected)


def test_a_resumed_learner_does_not_hold_its_checkpoint(policy, tmp_path):
    """Each view of a mapped file holds the whole file, which is three times the model."""
    tested = backend(policy)
    tested.train(batch(policy, 1))
    tested.save(tmp_path)
    tested.load(tmp_path)
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()


def test_an_interrupted_step_never_happened(policy):
    tested, straight = backend(policy), backend(policy)
    calls = []

    def interrupt():
        calls.append(None)
        if len(calls) == 3:
            raise trio.EndOfChannel

    with pytest.raises(trio.EndOfChannel):
        tested.train(batch(policy, 1), interrupt)
    assert tested.step == 0
    tested.train(batch(policy, 1))
    straight.train(batch(policy, 1))
    assert torch.equal(parameters(tested.model), parameters(straight.model))


def test_state_of_another_model_is_refused(policy, tmp_path):
    backend(policy).save(tmp_path)
    other = copy.deepcopy(policy.model)
    other.resize_token_embeddings(50)
    with pytest.raises(RunError, match="holds another model"):
        TorchBackend(other, config.load("nano")).load(tmp_path)
    (tmp_path / "state.safetensors").write_bytes(b"nonsense")
    with pytest.raises(RunError, match="cannot be read"):
        backend(policy).load(tmp_path)


def test_a_batch_out_of_order_is_a_broken_invariant(policy):
    with pytest.raises(ValueError, match="batch of step 2 after step 0"):
        backend(policy).train(batch(policy, 2))


def test_bfloat16_computes_low_and_keeps_float32(policy):
    tested, exact = backend(policy, "model.dtype=bfloat16"), backend(policy)
    low, high = tested.train(batch(policy, 1)), exact.train(batch(policy, 1))
    assert {one.dtype for one in tested.model.parameters()} == {torch.float32}
    assert 1e-4 < low.mismatch < 0.1  # it really computed in bfloat16
    assert low.grad_norm == pytest.approx(high.grad_norm, rel=0.1)
