"""Token arrays as raw little-endian bytes, and messages as msgpack: the one place that fixes both layouts."""

from hashlib import blake2b, sha256
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from spade.decoding import decoded
from spade.protocol import DIGEST_BYTES, AnyRequest, Observed, Response, Trajectory

_encoder = msgspec.msgpack.Encoder()
_requests: msgspec.msgpack.Decoder[AnyRequest] = msgspec.msgpack.Decoder(AnyRequest)
_responses: msgspec.msgpack.Decoder[Response] = msgspec.msgpack.Decoder(Response)


def encode(message: msgspec.Struct) -> bytes:
    """A message as msgpack."""
    return _encoder.encode(message)


def decode_request(data: bytes) -> AnyRequest:
    """Raises UnreadableError on nonsense."""
    return decoded(_requests.decode, data)


def decode_response(data: bytes) -> Response:
    """Raises UnreadableError on nonsense."""
    return decoded(_responses.decode, data)


def answer_digest(answer: Observed) -> bytes:
    """The digest of an answer, 16 bytes: BLAKE2b of its encoding."""
    return blake2b(encode(answer), digest_size=DIGEST_BYTES).digest()


def program_digest(source: str) -> str:
    """The name of a program on the bus: SHA-256 of its UTF-8 in hex, 64 digits."""
    return sha256(source.encode()).hexdigest()


def pack_ids(ids: list[int]) -> bytes:
    """Token ids as little-endian int32."""
    return np.asarray(ids, dtype="<i4").tobytes()


def unpack_ids(data: bytes) -> NDArray[np.int32]:
    """Shape (tokens,), int32, read-only."""
    return np.frombuffer(data, dtype="<i4")


def pack_floats(values: list[float]) -> bytes:
    """Log-probabilities as little-endian float32."""
    return np.asarray(values, dtype="<f4").tobytes()


def unpack_floats(data: bytes) -> NDArray[np.float32]:
    """Shape (tokens,), float32, read-only."""
    return np.frombuffer(data, dtype="<f4")


def pack_mask(mask: list[bool]) -> tuple[int, ...]:
    """A mask, True where the model sampled a token, as the spans of a trajectory."""
    spans = [0]
    for sampled in mask:
        if sampled == len(spans) % 2:
            spans.append(0)
        spans[-1] += 1
    return tuple(spans)


def unpack_mask(trajectory: Trajectory) -> NDArray[np.uint8]:
    """Shape (tokens,), uint8; 1 where the model sampled the token."""
    kinds = np.arange(len(trajectory.spans), dtype=np.uint8) & 1
    return np.repeat(kinds, np.asarray(trajectory.spans, dtype=np.int64))


def named(value: Any) -> Any:
    """Structs, nested ones too, as dicts by field name; on the wire and on disk they are arrays."""
    if isinstance(value, msgspec.Struct):
        return {name: named(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {key: named(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and value and not isinstance(value[0], int | float):
        return [named(item) for item in value]
    return value
