import pytest

from tests.replay.ledger.windows.one_window import begin


@pytest.fixture
def ledger():
    return begin()
