"""`python -m tests.fuzz.decoders`, a few of each."""

import pytest

from tests.fuzz.decoders import decoders, fuzz

FEW = 60


def test_no_decoder_of_foreign_bytes_raises_what_it_does_not_say(tmp_path):
    for decoder in decoders(tmp_path):
        found = fuzz(decoder, 60.0, seed=11, most=FEW)
        assert found["given"] == FEW
        assert found["read"] < FEW, decoder.name


def test_a_decoder_that_raises_anything_else_is_found(tmp_path):
    from tests.fuzz.decoders import Decoder

    def naive(data: bytes) -> object:
        return data.decode()

    with pytest.raises(AssertionError, match="naive: UnicodeDecodeError"):
        fuzz(Decoder("naive", lambda random: random.randbytes(8), naive, ()), 60.0, seed=1)
