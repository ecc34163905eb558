"""Encode token arrays as raw little-endian bytes, and messages as msgpack. Only this module defines both layouts.

numpy is imported only when an array is first packed or unpacked. In a process without arrays, such as `spade status`,
the import would take a third of the start time.
"""

from collections.abc import Iterator
from hashlib import blake2b, sha256
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from spade.decoding import try_decode
from spade.protocol import DIGEST_BYTES, AnyRequest, Observed, Response, Trajectory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_encoder = msgspec.msgpack.Encoder()
_requests: msgspec.msgpack.Decoder[AnyRequest] = msgspec.msgpack.Decoder(AnyRequest)
_responses: msgspec.msgpack.Decoder[Response] = msgspec.msgpack.Decoder(Response)


def encode(message: msgspec.Struct) -> bytes:
    """Encode a message as msgpack."""
    return _encoder.encode(message)


def decode_request(data: bytes) -> AnyRequest:
    """Decode a request. Raises UnreadableError if the bytes are malformed."""
    return try_decode(_requests.decode, data)


def decode_response(data: bytes) -> Response:
    """Decode a reply or a push. Raises UnreadableError if the bytes are malformed."""
    return try_decode(_responses.decode, data)


def answer_digest(answer: Observed) -> bytes:
    """Return the digest of a program's answer: BLAKE2b of its encoding, 16 bytes."""
    return blake2b(encode(answer), digest_size=DIGEST_BYTES).digest()


def compute_program_digest(source: str) -> str:
    """Return the name of a program on the bus: SHA-256 of its UTF-8 text in hex, 64 digits."""
    return sha256(source.encode()).hexdigest()


def pack_ids(ids: list[int]) -> bytes:
    """Pack token ids as little-endian int32."""
    import numpy as np

    return np.asarray(ids, dtype="<i4").tobytes()


def unpack_ids(data: bytes) -> "NDArray[np.int32]":
    """Unpack token ids into a read-only array: int32, (tokens,)."""
    import numpy as np

    return np.frombuffer(data, dtype="<i4")


def pack_floats(values: list[float]) -> bytes:
    """Pack log-probabilities as little-endian float32."""
    import numpy as np

    return np.asarray(values, dtype="<f4").tobytes()


def unpack_floats(data: bytes) -> "NDArray[np.float32]":
    """Unpack log-probabilities into a read-only array: float32, (tokens,)."""
    import numpy as np

    return np.frombuffer(data, dtype="<f4")


def split_runs(trajectory: Trajectory) -> Iterator[tuple[bool, list[int]]]:
    """Yield each run of tokens in order: True if the model sampled the run, and its ids."""
    ids, ends = unpack_ids(trajectory.ids).tolist(), accumulate(trajectory.spans, initial=0)
    for place, (start, end) in enumerate(pairwise(ends)):
        yield place % 2 == 1, ids[start:end]


def unpack_mask(trajectory: Trajectory) -> "NDArray[np.uint8]":
    """Convert the spans of a trajectory into a mask, 1 for each sampled token: uint8, (tokens,)."""
    import numpy as np

    kinds = np.arange(len(trajectory.spans), dtype=np.uint8) & 1
    return np.repeat(kinds, np.asarray(trajectory.spans, dtype=np.int64))


def convert_to_named(value: Any) -> Any:
    """Convert structs, including nested structs, to dicts by field name. In messages and on disk, structs are
    arrays."""
    if isinstance(value, msgspec.Struct):
        return {name: convert_to_named(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {key: convert_to_named(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and value and not isinstance(value[0], int | float):
        return [convert_to_named(item) for item in value]
    return value
