"""Files and answers of others, broken: JSON with what no decoder likes in the place of values, broken bytes. Pure."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

DEPTH = 20_000  # of nesting; decoders give up at a thousand or so


class Raw(bytes):
    """Written as it is, be it JSON or not."""


def _nest(random: Random) -> bytes:
    opening, closing = random.choice([(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")])
    depth = random.choice([3, 900, 1_100, DEPTH])
    return opening * depth + random.choice([b"", b"0", b"0" + closing * depth])


NASTY: tuple[Callable[[Random], bytes], ...] = (
    _nest,
    lambda random: b'"' + random.choice([b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xf0\x9f", b"\0", b"\x1b[2J"]) + b'"',
    lambda random: random.choice([b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud800\\u0041"', b'"\\uD83D\\uDE00"']),
    lambda random: random.choice([b"NaN", b"-Infinity", b"1e400", b"-1e-400", b"1e1000000", b"-0", b"01", b"+1", b"."]),
    lambda random: b"-" * random.randrange(2) + b"9" * random.choice([19, 20, 39, 309, 4_301, 100_000]),
    lambda random: str(random.choice([-(2**63) - 1, 2**63, 2**64, -1, 2**31, 10**400])).encode(),
    lambda random: b'"' + b"x" * random.choice([0, 300, 70_000]) + b'"',
    lambda random: b'"\\u202e\\u0000\\n\\u001b]0;x\\u0007"',
    lambda _: b"null",
    lambda _: b"true",
    lambda _: b"{}",
    lambda _: b"[]",
    lambda random: b"[" + b",".join([b"0"] * random.choice([1, 2, 70_000])) + b"]",
)


def broken_json(random: Random, tree: Any) -> bytes:
    """The tree as JSON, with up to three of its values replaced, keys doubled or left out, bytes broken."""
    for _ in range(random.choice((0, 1, 1, 1, 2, 3))):
        tree = _replaced(random, tree)
    data = _written(random, tree)
    return damaged(random, data) if random.random() < 0.3 else data


def damaged(random: Random, data: bytes) -> bytes:
    """Bytes cut, flipped, doubled, encoded otherwise."""
    at = random.randrange(len(data) + 1)
    match random.randrange(7):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + random.randbytes(random.randint(1, 4)) + data[at:]
        case 2 if data:
            flipped = bytearray(data)
            flipped[at % len(data)] ^= 1 << random.randrange(8)
            return bytes(flipped)
        case 3:
            return data + data
        case 4:
            return random.choice([b"\xef\xbb\xbf", b"\xff\xfe", b"\0", b" " * 1_000]) + data
        case 5:
            return data.decode("latin-1").encode(random.choice(["utf-16", "utf-32", "utf-7"]))
        case _:
            return data[at:] + data[:at]


def _replaced(random: Random, tree: Any) -> Any:
    """One value somewhere in the tree, or all of it, is a nasty one."""
    if isinstance(tree, dict) and tree and random.random() < 0.9:
        key = random.choice(list(tree))
        if random.random() < 0.1:
            return {name: value for name, value in tree.items() if name != key}
        return {**tree, key: _replaced(random, tree[key])}
    if isinstance(tree, list) and tree and random.random() < 0.8:
        at = random.randrange(len(tree))
        return [*tree[:at], _replaced(random, tree[at]), *tree[at + 1 :]]
    return Raw(random.choice(NASTY)(random))


def _written(random: Random, tree: Any) -> bytes:
    if isinstance(tree, Raw):
        return tree
    if isinstance(tree, dict):
        items = [(key, value) for key, value in tree.items() for _ in range(2 if random.random() < 0.02 else 1)]
        pairs = [_key(random, key) + b":" + _written(random, value) for key, value in items]
        return b"{" + b",".join(pairs) + b"}"
    if isinstance(tree, list | tuple):
        return b"[" + b",".join(_written(random, item) for item in tree) + b"]"
    return json.dumps(tree).encode()


def _key(random: Random, key: str) -> bytes:
    if random.random() < 0.01:
        return random.choice([b'"\xff"', b'"\\ud800"', b'""', b"0", b'"' + b"k" * 5_000 + b'"'])
    return json.dumps(key).encode()
