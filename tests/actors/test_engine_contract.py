"""The contract of engines, held by the kinds that need nothing installed beside the package."""

import pytest

from actors.engines.torch import TorchEngine
from tests.actors.engine_contract import CONTEXT, ROWS, FollowingContract


class TestTorch(FollowingContract):
    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, nano):
        return TorchEngine(nano.weights(1), rows=ROWS, context_tokens=CONTEXT, dtype="float32", device="cpu")
