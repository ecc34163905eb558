"""Sampling: one uniform number a token, and the distribution it is read off from."""

from collections import Counter

import numpy as np
import pytest
import torch
import transformers

from actors.engines.torch.sampling import draw_uniforms, sample, truncate_logprobs


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
    ours = truncate_logprobs(logits.log_softmax(-1), torch.full((20,), 0.7), torch.full((20,), 40))
    theirs = transformers.TopPLogitsWarper(0.7)(None, transformers.TopKLogitsWarper(40)(None, logits)).log_softmax(-1)
    torch.testing.assert_close(ours, theirs)


def test_any_top_k_over_the_vocabulary_is_all_of_it():
    logits, half = torch.zeros(2, 4), np.array([0.6, 0.6])
    assert sample(logits, [1.0] * 2, half, [1.0] * 2, [0, 2**64 - 1])[0] == [2, 2]


def test_uniforms_are_uniform_and_need_no_history():
    numbers = draw_uniforms([3] * 4_000, range(4_000))
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=10, range=(0, 1))
    assert abs(counts - 400).max() < 80
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.05
    assert draw_uniforms([2**63 - 1, 3], [0, 17]).tolist() == [draw_uniforms([2**63 - 1], [0])[0], numbers[17]]
