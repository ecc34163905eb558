"""The decoding of a GPU, with plain calls in place of captured graphs and of the flash kernel."""

import pytest

from tests.actors.engines.engine_contract import FollowingContract
from tests.actors.engines.plain_flash import pretend_gpu
from tests.actors.engines.test_contract import torch_engine


@pytest.fixture(scope="class")
def pretended():
    with pytest.MonkeyPatch.context() as patch:
        pretend_gpu(patch)
        yield


class TestTrips(FollowingContract):
    @pytest.fixture(scope="class")
    @classmethod
    def engine(cls, nano, pretended):
        engine = torch_engine(nano)
        assert engine._decoder is not None
        return engine
