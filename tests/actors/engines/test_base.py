"""Requests that no engine can serve."""

import pytest

from actors.engines.base import explain_misfit
from spade.codec import pack_ids
from spade.protocol import Generate


@pytest.mark.parametrize(("asked", "reason"), [
    (Generate(pack_ids([3] * 200), 57, 1.0, 0), "exceed engine.context_tokens = 256"),
    (Generate(b"", 1, 1.0, 0), "needs a prompt"),
    (Generate(b"abc", 1, 1.0, 0), "needs a prompt of int32 ids"),
    (Generate(pack_ids([3]), 0, 1.0, 0), "max_tokens of at least 1"),
    (Generate(pack_ids([3]), 1, 1.0, -1), "seed of at least 0"),
    (Generate(pack_ids([3, 99_999]), 1, 1.0, 0), "ids outside of the model's"),
    (Generate(pack_ids([-1]), 1, 1.0, 0), "ids outside of the model's"),
    (Generate(pack_ids([3]), 1, 0.0, 0), "temperature must be at least"),
    (Generate(pack_ids([3]), 1, float("nan"), 0), "temperature must be at least"),
    (Generate(pack_ids([3]), 1, 1.0, 0, top_p=0.0), "top_p must be in"),
    (Generate(pack_ids([3]), 1, 1.0, 0, top_k=-1), "top_k at least 0"),
    (Generate(pack_ids([3]), 1, 1.0, 0, stop=("a", "")), "an empty stop string"),
])  # fmt: skip
def test_a_request_that_can_never_be_served_is_refused(asked, reason):
    assert reason in explain_misfit(asked, context_tokens=256, vocabulary=320)


def test_a_request_that_just_fits_is_served():
    assert (
        explain_misfit(Generate(pack_ids([3] * 200), 56, 1e-3, 0, top_p=1.0), context_tokens=256, vocabulary=320)
        is None
    )
