"""What older formats of the store held."""

import msgspec

from spade.codec import encode, pack_mask, unpack_floats
from spade.protocol import Trajectory, Wire


class _Trajectory1(Wire, frozen=True, tag="Trajectory"):
    """Format 1: a mask byte (1 where sampled) and a log-probability for every token, also where it was read."""

    ids: bytes
    mask: bytes
    logprobs: bytes
    versions: tuple[tuple[int, int], ...]
    temperature: float


def from_format_1(data: bytes) -> bytes:
    """A trajectory of format 1 as it is encoded now."""
    old = msgspec.msgpack.decode(data, type=_Trajectory1)
    sampled = [bool(byte) for byte in old.mask]
    logprobs = unpack_floats(old.logprobs)[sampled].tobytes()
    return encode(Trajectory(old.ids, pack_mask(sampled), logprobs, old.versions, old.temperature))
