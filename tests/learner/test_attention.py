"""One call of the kernel for variable lengths against one call for each segment, over random forests of segments.

The kernel runs on a GPU alone. Here a loop of plain attention with its arguments takes its place.
"""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.attention import SDPBackend

from learner.models import attention
from learner.models.attention import Segments, compute_packed_attention

HEADS, KEY_HEADS, WIDTH = 4, 2, 8


def attend_plainly(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, scale, window_size, enable_gqa=True):
    """Compute what `varlen_attn` computes: spans of queries over spans of keys, aligned to the last of both."""
    spans = list(zip(pairwise(cu_seq_q.tolist()), pairwise(cu_seq_k.tolist()), strict=True))
    assert max_q == max(end - begin for (begin, end), _ in spans)
    assert max_k == max(end - begin for _, (begin, end) in spans)
    left, right = window_size
    assert right == 0
    found = []
    for (begin, end), (first, last) in spans:
        behind = torch.arange(end - begin)[:, None] + (last - first) - (end - begin) - torch.arange(last - first)
        seen = (behind >= 0) & ((behind <= left) | (left < 0))
        each = (query[begin:end], key[first:last], value[first:last])
        q, k, v = (one.transpose(0, 1) for one in each)
        out = nn.functional.scaled_dot_product_attention(q, k, v, seen, scale=scale, enable_gqa=enable_gqa)
        found.append(out.transpose(0, 1))
    return torch.cat(found)


@st.composite
def forests(draw):
    lengths = draw(st.lists(st.integers(1, 9), min_size=1, max_size=8))
    return Segments(lengths, [draw(st.integers(-1, index - 1)) for index in range(len(lengths))])


@pytest.mark.parametrize("window", [None, 1, 6])
@settings(max_examples=40)
@given(segments=forests(), alone=st.integers(1, 20))
def test_one_call_for_a_row_equals_one_call_for_each_segment(window, segments, alone):
    torch.manual_seed(3)
    tokens = sum(segments.lengths)
    module = nn.Module()
    module.num_key_value_groups = HEADS // KEY_HEADS
    inputs = [torch.randn(1, heads, tokens, WIDTH, requires_grad=True) for heads in (HEADS, KEY_HEADS, KEY_HEADS)]
    weight = torch.randn(1, tokens, HEADS, WIDTH)
    found = []
    for fits, fast in ((False, False), (True, False), (True, True)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(attention, "_fits_kernel", lambda *_, fits=fits: fits)
            patch.setattr(attention, "_has_fast_cudnn", lambda _, fast=fast: fast)
            patch.setattr(attention, "_ALONE_BACKENDS", [SDPBackend.MATH])
            patch.setattr(attention, "ALONE", alone)
            patch.setattr(attention, "varlen_attn", attend_plainly)
            out, _ = compute_packed_attention(
                module, *inputs, None, packed_segments=segments, scaling=0.4, sliding_window=window
            )
        found.append((out, *torch.autograd.grad((out * weight).sum(), inputs)))
    for expected, *ours in zip(*found, strict=True):
        assert all(torch.allclose(each, expected, atol=1e-5) for each in ours)


def test_a_row_without_shared_beginnings_copies_no_key():
    cpu = torch.device("cpu")
    assert Segments([3, 4], [-1, -1]).spans(None, cpu, [0, 1]).places is None
    assert Segments([3, 4], [-1, 0]).spans(None, cpu, [0, 1]).places.tolist() == [0, 1, 2, *range(7)]
    assert Segments([3, 4], [-1, -1]).spans(None, cpu, [1]).places.tolist() == [3, 4, 5, 6]


def test_a_long_segment_is_a_call_of_its_own_unless_its_beginning_is_longer():
    assert Segments([5, 3, 4, 6, 4], [-1, -1, 0, 1, 1]).list_long(4) == [0, 3, 4]


def test_few_lengths_reach_cudnn(monkeypatch):
    """Each new length costs cuDNN time."""
    lengths = set()

    def attend(query, key, value, **_):
        lengths.add(query.shape[2])
        assert query.shape[2] == key.shape[2] == value.shape[2]
        return query

    monkeypatch.setattr(attention, "scaled_dot_product_attention", attend)
    for keys in range(1024, 2048):
        attention._attend_alone(*(torch.zeros(1, 1, count, 1) for count in (700, keys, keys)), None)
    assert lengths == {1024 + 64 * index for index in range(17)}
