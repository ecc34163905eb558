"""Seeds by a keyed stable hash: the same (secret, purpose, parts) gives the same seed in every process, for ever."""

import hashlib
import secrets

SEED_BITS = 63
INSTANCE_MASK = 0x7FFF_FFFF  # bits of an environment's seed: the generator of every library takes these


def new_secret() -> bytes:
    """Draw a run's secret (32 bytes); it stays in the store and is never shown to a program."""
    return secrets.token_bytes(32)


def derive(secret: bytes, purpose: str, *parts: str | int) -> int:
    """A seed in [0, 2**63) for `purpose`, told apart by `parts`."""
    text = "\x1f".join([purpose, *(str(part) for part in parts)])
    digest = hashlib.blake2b(text.encode(), key=secret[:64], digest_size=8).digest()
    return int.from_bytes(digest, "little") >> (64 - SEED_BITS)
