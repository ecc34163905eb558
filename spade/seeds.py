"""Derive seeds by a keyed stable hash.

The same (secret, purpose, parts) always give the same seed, in every process.
"""

import hashlib
import secrets

SEED_BITS = 63
INSTANCE_MASK = 0x7FFF_FFFF  # bits of an environment's seed, which the generator of every library accepts


def draw_secret() -> bytes:
    """Draw a run's secret, 32 bytes. It stays in the store and is never shown to a program."""
    return secrets.token_bytes(32)


def derive(secret: bytes, purpose: str, *parts: str | int) -> int:
    """Return a seed in [0, 2**63) for `purpose`. Different `parts` give different seeds."""
    text = "\x1f".join([purpose, *(str(part) for part in parts)])
    digest = hashlib.blake2b(text.encode(), key=secret[:64], digest_size=8).digest()
    return int.from_bytes(digest, "little") >> (64 - SEED_BITS)
