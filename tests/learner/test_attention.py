"""One call of the kernel for variable lengths against one call for each segment, over random forests of segments.

The kernel runs on a GPU alone. Here a loop of plain attention with its arguments takes its place.
"""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

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
@given(segments=forests())
def test_one_call_for_a_row_equals_one_call_for_each_segment(window, segments):
    torch.manual_seed(3)
    tokens = sum(segments.lengths)
    module = nn.Module()
    module.num_key_value_groups = HEADS // KEY_HEADS
    inputs = [torch.randn(1, heads, tokens, WIDTH, requires_grad=True) for heads in (HEADS, KEY_HEADS, KEY_HEADS)]
    weight = torch.randn(1, tokens, HEADS, WIDTH)
    found = []
    for fits in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(attention, "_fits_kernel", lambda *_, fits=fits: fits)
            patch.setattr(attention, "varlen_attn", attend_plainly)
            out, _ = compute_packed_attention(
                module, *inputs, None, packed_segments=segments, scaling=0.4, sliding_window=window
            )
        found.append((out, *torch.autograd.grad((out * weight).sum(), inputs)))
    for expected, ours in zip(*found, strict=True):
        assert torch.allclose(ours, expected, atol=1e-5)


def test_a_row_without_shared_beginnings_copies_no_key():
    assert Segments([3, 4], [-1, -1]).spans(None, torch.device("cpu")).places is None
    assert Segments([3, 4], [-1, 0]).spans(None, torch.device("cpu")).places.tolist() == [0, 1, 2, *range(7)]
