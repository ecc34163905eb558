"""Any fault of bytes from outside is one error of ours, in one line that a terminal can show."""

import json

import msgspec
import pytest

from actors.sandbox.wire import LoadReply, unpack
from spade.decoding import LONGEST, UnreadableError, try_decode

FRAME = b'{"nonce":"0","is":"observed","text":"%s","reward":%s,"terminated":false,"truncated":false}'
BROKEN = {
    "bad UTF-8 before the tag": b'{"nonce":"\xff","is":"loaded"}',
    "bad UTF-8 in a key": b'{"\xff":1,"is":"loaded"}',
    "bad UTF-8 in the tag": b'{"is":"\xff"}',
    "bad UTF-8 in a value": FRAME % (b"\xc3\x28", b"1"),
    "a surrogate in UTF-8": FRAME % (b"\xed\xa0\x80", b"1"),
    "a lone surrogate": FRAME % (b"\\ud800", b"1"),
    "arrays before the tag": b'{"nonce":' + b"[" * 100_000,
    "objects before the tag": b'{"a":' * 100_000,
    "nesting that is closed": b'{"nonce":' + b"[" * 100_000 + b"]" * 100_000 + b',"is":"loaded"}',
    "NaN": FRAME % (b"", b"NaN"),
    "infinity": FRAME % (b"", b"-Infinity"),
    "a number out of range": FRAME % (b"", b"1" + b"0" * 400),
    "an exponent out of range": FRAME % (b"", b"1e400"),
    "a number of many digits": FRAME % (b"", b"9" * 100_000),
    "two tags": b'{"is":"observed","is":"loaded","nonce":"0","name":"x"}',
    "cut short": b'{"is":"loaded","nonce":"0"',
    "two values": b'{"is":"loaded","nonce":"0","name":"x"}{}',
    "nothing": b"",
    "zeros": bytes(64),
    "UTF-16": '{"is":"loaded"}'.encode("utf-16"),
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_frame_is_one_error(body):
    with pytest.raises(UnreadableError):
        unpack(body)


def test_the_text_of_the_error_is_one_short_printable_line():
    with pytest.raises(UnreadableError) as caught:
        unpack(json.dumps({"is": "\x1b[2J\u202e\n" + "x" * 100_000}).encode())
    text = str(caught.value)
    assert text.isprintable()
    assert text.startswith("Invalid value '\\x1b[2J\\u202e x")
    assert len(text) <= LONGEST


def test_checks_after_decoding_raise_the_same_error():
    class Checked(msgspec.Struct):
        def __post_init__(self) -> None:
            raise ArithmeticError("it cannot be")

    with pytest.raises(UnreadableError, match="it cannot be"):
        try_decode(msgspec.json.Decoder(Checked).decode, b"{}")


def test_an_error_without_words_has_its_name():
    def wordless(_: bytes) -> None:
        raise ArithmeticError

    with pytest.raises(UnreadableError, match="ArithmeticError"):
        try_decode(wordless, b"")


def test_a_whole_frame_is_read():
    assert unpack(b'{"is":"loaded","nonce":"0","name":"x"}') == LoadReply("0", "x")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b'"\\ud800"', "lone surrogate"),
        (b'"\\ud800 x"', "lone surrogate"),
        (b'"\\udc00x"', "lone surrogate"),
        (b'"\\\\\\uD800"', "lone surrogate"),
        (b'"\xed\xa0\x80"', "is not UTF-8 text: it has a lone surrogate"),
        (b'"\xff"', "is not UTF-8 text"),
        (b'"\\\\ud800', "truncated"),
        (b'"\\ud83d\\ude00', "truncated"),
    ],
)
def test_a_lone_surrogate_is_called_that(data, told):
    with pytest.raises(UnreadableError, match=told) as raised:
        try_decode(msgspec.json.Decoder(str).decode, data)
    assert ("lone surrogate" in str(raised.value)) == ("lone surrogate" in told)


def test_a_text_that_cannot_be_encoded_is_told_as_such():
    with pytest.raises(UnreadableError, match="a lone surrogate"):
        try_decode(lambda data: json.loads(data).encode(), b'"\\ud800"')
