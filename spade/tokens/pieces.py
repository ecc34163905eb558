"""Split an answer's text into the bytes of its tokens. A character may lie in several tokens."""

import codecs
import json
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import tokenizers

_BYTE_TOKEN = re.compile("<0x([0-9A-Fa-f]{2})>")
_REPLACEMENT = "\ufffd".encode()


class TokenBytes:
    """Splits tokens into bytes that, when joined, give the text of the tokenizer's own decoder."""

    def __init__(self, bpe: tokenizers.Tokenizer) -> None:
        self._bpe = bpe
        kinds = set(_list_kinds(json.loads(bpe.decoder.__getstate__()))) if bpe.decoder is not None else set()
        self._alphabet = _make_byte_alphabet() if "ByteLevel" in kinds else {}
        self._byte_fallback = "ByteFallback" in kinds
        vocabulary = bpe.get_vocab()
        self._anchor = next((vocabulary[letter] for letter in "abcdefgh" if letter in vocabulary), None)

    def split(self, ids: Sequence[int]) -> list[bytes]:
        """Return the bytes of each token.

        Joined and decoded, with U+FFFD for errors, they give the text of the tokens.
        """
        if self._byte_fallback:
            return self._split_with_fallback(ids)
        return [self._decode_piece(id, at == 0) for at, id in enumerate(ids)]

    def _split_with_fallback(self, ids: Sequence[int]) -> list[bytes]:
        """Split the ids of a tokenizer that has tokens like <0xE2> for single bytes.

        In a run of such tokens that is not UTF-8, each token decodes to one U+FFFD.
        """
        pieces = list[bytes]()
        for is_byte, run in groupby(ids, lambda id: _BYTE_TOKEN.fullmatch(self._get_token(id)) is not None):
            if not is_byte:
                pieces += [self._decode_piece(id, not pieces and at == 0) for at, id in enumerate(run)]
                continue
            found = [bytes([int(self._get_token(id)[3:5], 16)]) for id in run]
            pieces += found if _is_text(b"".join(found)) else [_REPLACEMENT] * len(found)
        return pieces

    def _decode_piece(self, id: int, first: bool) -> bytes:
        if self._alphabet:
            token = self._get_token(id)
            known = [self._alphabet.get(character, -1) for character in token]
            return token.encode() if -1 in known else bytes(known)
        # Decoders may drop a space at the beginning of a text, so a later token is decoded after the anchor token.
        if first or self._anchor is None:
            return self._decode_bytes([id])
        return self._decode_bytes([self._anchor, id]).removeprefix(self._decode_bytes([self._anchor]))

    def _get_token(self, id: int) -> str:
        return self._bpe.id_to_token(id) or ""

    def _decode_bytes(self, ids: list[int]) -> bytes:
        text: str = self._bpe.decode(ids, skip_special_tokens=False)
        return text.encode()


def compute_offsets(pieces: Sequence[bytes]) -> list[int]:
    """Return the index of the first character of each piece in the whole text.

    A piece may begin in the middle of a character. Then its index is the index of this character.
    """
    found, whole = list[int](), 0
    for places, after in _count_characters(pieces):
        found.append(places[0] if places else whole)
        whole = after
    return found


def clip(pieces: Sequence[bytes], characters: int) -> list[bytes]:
    """Shorten the pieces to the first `characters` characters of their text."""
    kept = [sum(place < characters for place in places) for places, _ in _count_characters(pieces)]
    return [piece[:size] for piece, size in zip(pieces, kept, strict=True)]


def _count_characters(pieces: Sequence[bytes]) -> Iterator[tuple[list[int], int]]:
    """Yield, for each piece, the character index of each of its bytes, and the number of complete characters so far."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    whole = 0
    for piece in pieces:
        places = list[int]()
        for at in range(len(piece)):
            whole += len(decoder.decode(piece[at : at + 1]))
            places.append(whole if decoder.getstate()[0] else whole - 1)
        yield places, whole


def _list_kinds(decoder: Any) -> Iterator[str]:
    """Yield the types of a decoder and of the decoders in it."""
    yield decoder["type"]
    for inner in decoder.get("decoders", ()):
        yield from _list_kinds(inner)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _make_byte_alphabet() -> dict[str, int]:
    """Map each character of a byte-level vocabulary to the byte that it stands for."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + at): byte for at, byte in enumerate(others)}
