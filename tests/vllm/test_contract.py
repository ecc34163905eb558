"""The contract of engines, held by vLLM's CPU build: `make test-vllm`, in an environment of its own."""

import pytest

from actors.engines.vllm import VllmEngine
from spade.config import Engine
from tests.actors.engine_contract import CONTEXT, ROWS, FollowingContract


class TestVllm(FollowingContract):
    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, nano):
        settings = Engine(kind="vllm", rows=ROWS, context_tokens=CONTEXT, threads=1, kv_bytes=1 << 28)
        engine = VllmEngine(nano.weights(1), settings, dtype="float32")
        yield engine
        engine.close()


class TestTensorParallel(FollowingContract):
    """One copy of the model over two processes, each with half of its heads."""

    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, nano):
        settings = Engine(
            kind="vllm", rows=ROWS, context_tokens=CONTEXT, threads=1, kv_bytes=1 << 28, tensor_parallel=2
        )
        engine = VllmEngine(nano.weights(1), settings, dtype="float32")
        yield engine
        engine.close()
