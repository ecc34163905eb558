"""The plain counterpart of the flash kernel, so that what calls it runs on a CPU."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from actors.engines.torch import flash


def run_plainly(query, keys, values, call, scale, window):
    """Compute what `flash.run_kernel` computes, one sequence after another."""
    mixed = torch.full_like(query, torch.nan)
    for index, count in enumerate(call.counts.tolist()):
        first, end = call.queries[index : index + 2].tolist()
        assert end - first <= call.most_queries
        assert count <= call.most_keys
        at = call.keys[index]
        position = torch.arange(count - (end - first), count)[:, None]
        seen = torch.arange(count) <= position
        if window is not None:
            seen &= torch.arange(count) > position - window
        mine = query[first:end].transpose(0, 1)
        own_keys, own_values = (store[at : at + count].expand(len(mine), -1, -1) for store in (keys, values))
        out = scaled_dot_product_attention(mine, own_keys, own_values, attn_mask=seen, scale=scale)
        mixed[first:end] = out.transpose(0, 1)
    return mixed


def pretend_gpu(patch: pytest.MonkeyPatch) -> None:
    """Let engines opened from now on decode as on a GPU."""
    patch.setattr(flash, "can_run", lambda *kind: True)
    patch.setattr(flash, "run_kernel", run_plainly)
