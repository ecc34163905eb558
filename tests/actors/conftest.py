"""Shared by the tests of actors."""

import pytest

from actors.sandbox import open_sandbox
from tests.actors.odd_programs import LIMITS
from tests.actors.small_services import byte_tokenizer


@pytest.fixture
def tokenizer(tmp_path):
    return byte_tokenizer(tmp_path)


@pytest.fixture
async def sandbox():
    async with open_sandbox(LIMITS) as opened:
        yield opened
