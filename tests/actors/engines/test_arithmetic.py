"""In float64 the tokens of a request do not depend on the requests beside it."""

import pytest

from actors.engines.server import open_engine
from spade.codec import pack_ids
from spade.config import load
from spade.errors import ConfigError
from spade.policy.model_folder import NANO
from spade.protocol import Generate, Weights

REQUESTS = [Generate(pack_ids([5 + index % 7, 9, 11]), 12, 2.0, index) for index in range(12)]


def sampled(rows, arithmetic):
    """The tokens of each request, at most `rows` of them at once."""
    config = load("nano", (f"engine.rows={rows}", f"engine.arithmetic={arithmetic}"))
    engine = open_engine(Weights(1, 0, "", str(NANO)), config.engine, "float32")
    for id, request in enumerate(REQUESTS):
        engine.submit(id, request)
    answers = {}
    while engine.busy:
        answers |= dict(engine.step())
    return [answers[id].ids for id in range(len(REQUESTS))]


def test_tokens_are_the_same_beside_any_other_requests():
    assert sampled(12, "float64") == sampled(5, "float64")


def test_an_engine_without_it_refuses_and_names_one_that_has_it():
    with pytest.raises(ConfigError, match=r"engine.arithmetic: the vllm engine .* take engine.kind=torch"):
        load("nano", ("engine.kind=vllm", "engine.arithmetic=float64"))
