"""Shared by the tests of actors."""

import pytest

from tests.actors.small_services import byte_tokenizer


@pytest.fixture
def tokenizer(tmp_path):
    return byte_tokenizer(tmp_path)
