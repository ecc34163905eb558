"""The contract of engines, held by vLLM's CPU build: `make test-vllm`, in an environment of its own."""

import multiprocessing
from contextlib import closing

import pytest

from actors.engines.foreign.vllm import VllmEngine
from spade.config import Engine
from spade.errors import BusError
from spade.policy.model_folder import NANO
from spade.protocol import Refused
from tests.actors.engines.engine_contract import (
    CONTEXT,
    ROWS,
    FollowingContract,
    assert_sampled_from,
    checkpoint,
    request,
)


def opened(weights, **more):
    settings = Engine(kind="vllm", rows=ROWS, context_tokens=CONTEXT, threads=1, kv_bytes=1 << 28, **more)
    return closing(VllmEngine(weights, settings, "float32"))


class TestVllm(FollowingContract):
    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, nano):
        with opened(nano.weights(1)) as engine:
            yield engine

    def test_a_request_that_vllm_refuses_is_refused_and_others_are_served(self, engine, nano):
        """A temperature that it does not know."""
        asked = request(1), request(2, temperature=3.0)
        for index, one in enumerate(asked):
            engine.submit(index, one)
        results = {}
        while engine.busy:
            results.update(engine.step())
        assert isinstance(results[1], Refused)
        assert "vLLM refuses the request: temperature must be" in results[1].reason
        assert_sampled_from(nano.model, asked[0], results[0])


class TestTensorParallel(FollowingContract):
    """One copy of the model over two processes, each with half of its heads."""

    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, nano):
        with opened(nano.weights(1), tensor_parallel=2) as engine:
            yield engine


def test_where_its_processes_die_it_says_so_in_one_line_and_can_be_closed():
    with opened(checkpoint(NANO).weights(1)) as engine:
        for index in range(ROWS):
            engine.submit(index, request(index, max_tokens=200))
        while engine.active < ROWS:
            assert engine.step() == []
        for process in multiprocessing.active_children():
            process.kill()
        with pytest.raises(BusError, match="vLLM's own processes have died"):
            step_to_the_end(engine)
        with pytest.raises(BusError, match="vLLM's own processes have died"):
            engine.logprobs([5, 6])


def step_to_the_end(engine):
    while engine.busy:
        engine.step()
