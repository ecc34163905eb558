"""The bytes of tokens join to the text that the tokenizer decodes, whatever the tokens are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from spade.tokens import Tokenizer
from spade.tokens.pieces import _make_byte_alphabet, clip, compute_offsets
from tests.spade.token_shapes import SHAPES

TEXT = "Ö 👩‍👧 naïve\n\n  日本 🇩🇪!"


@pytest.fixture(scope="module", params=SHAPES, ids=lambda shape: shape.name)
def tokenizer(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param.name)
    request.param.build(folder)
    return Tokenizer.load(folder)


def test_characters_in_several_tokens_join(tokenizer):
    ids = tokenizer.encode(TEXT)
    pieces = tokenizer.pieces(ids)
    assert len(ids) > len(TEXT)
    assert b"".join(pieces).decode() == tokenizer.decode(ids)
    assert TEXT.replace(" ", "") in b"".join(pieces).decode().replace(" ", "")


@given(data=st.data())
def test_any_tokens_join_to_their_text_and_begin_where_they_stand_in_it(tokenizer, data):
    ids = data.draw(st.lists(st.integers(0, tokenizer.size - 1), max_size=20))
    pieces, text = tokenizer.pieces(ids), tokenizer.decode(ids)
    assert len(pieces) == len(ids)
    assert b"".join(pieces).decode(errors="replace") == text
    places = compute_offsets(pieces)
    assert places == sorted(places)
    for place, piece in zip(places, pieces, strict=True):
        whole = piece.decode(errors="ignore")
        if whole.encode() == piece and whole:
            assert text[place : place + len(whole)] == whole


def test_control_tokens_add_nothing_unless_they_are_kept(tokenizer):
    end = min(tokenizer.end_ids)
    ids = [*tokenizer.encode("go"), end]
    assert tokenizer.pieces(ids)[-1] == b""
    mark = tokenizer.token_text(end)
    assert tokenizer.pieces(ids, (mark,))[-1] == mark.encode()
    assert b"".join(tokenizer.pieces(ids, (mark,))).decode() == tokenizer.decode(ids, (mark,))


def test_a_piece_begins_in_the_character_that_it_is_part_of():
    assert compute_offsets([b"a", "👍".encode()[:2], "👍".encode()[2:], b"", "é".encode(), b"b"]) == [0, 1, 1, 2, 2, 3]
    assert compute_offsets([b"\xf0\x9f", b"a", b"\xff", b"\xe2", b"\xe2\x82\xac"]) == [0, 1, 2, 3, 4]
    assert compute_offsets([]) == []


def test_pieces_are_clipped_to_a_number_of_characters():
    assert clip([b"ab", b"", b"cd", b"e"], 3) == [b"ab", b"", b"c", b""]
    thumb = "👍".encode()
    assert clip([b"a", thumb[:2], thumb[2:] + b"b"], 2) == [b"a", thumb[:2], thumb[2:]]
    assert clip([b"a", thumb[:2], thumb[2:]], 1) == [b"a", b"", b""]
    assert clip([b"a", b"\xff", b"b"], 1) == [b"a", b"", b""]  # the stop was U+FFFD
    assert clip([b"a", b"b"], 9) == [b"a", b"b"]


def test_the_alphabet_is_the_library_s():
    assert sorted(_make_byte_alphabet()) == sorted(pre_tokenizers.ByteLevel.alphabet())
    assert sorted(_make_byte_alphabet().values()) == list(range(256))
