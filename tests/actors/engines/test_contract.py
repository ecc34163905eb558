"""The contract of engines, held by the kinds that need nothing installed beside the package."""

from collections import Counter
from contextlib import closing

import pytest

from actors.engines.foreign.endpoint import EndpointEngine
from actors.engines.torch.engine import TorchEngine
from spade.checkpoints import NANO
from spade.config import Config, Endpoint, Engine
from spade.tokens import Tokenizer
from tests.actors.engines.completions_server import completions
from tests.actors.engines.engine_contract import CONTEXT, ROWS, EngineContract, FollowingContract, request
from tests.actors.engines.swapping import asked_over_swaps


def torch_engine(nano):
    settings = Engine(rows=ROWS, context_tokens=CONTEXT, kv_bytes=1 << 28, device="cpu")
    return TorchEngine(nano.weights(1), settings, "float32")


class TestTorch(FollowingContract):
    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, nano):
        return torch_engine(nano)

    async def test_without_waiting_sequences_in_flight_go_on(self, engine, nano, newer, tmp_path):
        first, last = engine.version, engine.version + 2
        weights = [nano.weights(first), newer.weights(first + 1), newer.weights(last)]
        asked = [request(index, max_tokens=30, temperature=1.0) for index in range(2 * ROWS)]
        results = await asked_over_swaps(engine, "keep", ROWS, weights, asked, tmp_path)
        versions = Counter(tuple(dict(generated.versions)) for generated in results)
        assert versions == {(first, last): ROWS - 1, (last,): ROWS + 1}


class TestEndpoint(EngineContract):
    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, nano):
        tokenizer = Tokenizer.load(NANO)
        with completions(torch_engine(nano), tokenizer) as server:
            config = Config(engine=Engine(rows=ROWS, context_tokens=CONTEXT), endpoint=Endpoint(url=server.url))
            with closing(EndpointEngine(config, tokenizer)) as engine:
                yield engine
