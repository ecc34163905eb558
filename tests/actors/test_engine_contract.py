"""The contract of engines, held by the kinds that need nothing installed beside the package."""

from contextlib import closing

import pytest

from actors.engines.endpoint import EndpointEngine
from actors.engines.torch import TorchEngine
from spade.checkpoints import NANO
from spade.config import Config, Endpoint, Engine
from spade.tokens import Tokenizer
from tests.actors.completions_server import completions
from tests.actors.engine_contract import CONTEXT, ROWS, EngineContract, FollowingContract


def torch_engine(nano):
    return TorchEngine(
        nano.weights(1), rows=ROWS, context_tokens=CONTEXT, kv_bytes=1 << 28, dtype="float32", device="cpu"
    )


class TestTorch(FollowingContract):
    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, nano):
        return torch_engine(nano)


class TestEndpoint(EngineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, nano):
        tokenizer = Tokenizer.load(NANO)
        with completions(torch_engine(nano), tokenizer) as server:
            config = Config(engine=Engine(rows=ROWS, context_tokens=CONTEXT), endpoint=Endpoint(url=server.url))
            with closing(EndpointEngine(config, tokenizer)) as engine:
                yield engine
