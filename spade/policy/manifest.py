"""Manifests of published parameters: a digest of each tensor, and one digest of all of them. No torch here.

FOLDER/model.safetensors   the parameters
FOLDER/manifest.json       name, dtype, shape and blake2b-128 of each tensor

The digest of the weights is blake2b-128 over the manifest's lines in the order of their names, in hex. It names the
parameters, not the layout of a file. Two manifests show which tensors differ. Each tensor can be checked alone.
"""

import hashlib
import mmap
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from spade.decoding import UnreadableError, try_decode
from spade.disk import open_regular, read_all
from spade.errors import WeightsError
from spade.protocol import DIGEST_BYTES

PARAMETERS, MANIFEST = "model.safetensors", "manifest.json"
LENGTH_BYTES = 8  # the start of a safetensors file: the length of its JSON header


class _Entry(msgspec.Struct):
    """A tensor in the header of a safetensors file."""

    dtype: str
    """Type of its numbers, as safetensors calls it."""

    shape: tuple[int, ...]
    """Shape of the tensor."""

    data_offsets: tuple[int, int]
    """First byte of the tensor, and the byte after its last, counted from the end of the header."""


class Tensor(msgspec.Struct, frozen=True):
    """One tensor of a manifest."""

    dtype: str
    """Type of its numbers, as safetensors calls it."""

    shape: tuple[int, ...]
    """Shape of the tensor."""

    digest: str
    """blake2b-128 of its little-endian bytes, in hex."""


Manifest = dict[str, Tensor]
Spans = dict[str, tuple[int, int]]
"""Maps a tensor's name to its bytes, [first, last) of the file."""

_manifests: msgspec.json.Decoder[Manifest] = msgspec.json.Decoder(Manifest)
_headers: msgspec.json.Decoder[dict[str, msgspec.Raw]] = msgspec.json.Decoder(dict[str, msgspec.Raw])
_entries: msgspec.json.Decoder[_Entry] = msgspec.json.Decoder(_Entry)


def make_hasher(data: bytes | memoryview = b"") -> hashlib.blake2b:
    """Return a hash object for digests, fed with `data`."""
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES)


def compute_digest(manifest: Manifest) -> str:
    """Return the digest of the weights: 32 hexadecimal digits."""
    lines = (f"{name} {one.dtype} {list(one.shape)} {one.digest}\n" for name, one in sorted(manifest.items()))
    return make_hasher("".join(lines).encode()).hexdigest()


def read_spans(file: Path) -> Spans:
    """Return the places of the tensors in a safetensors file.

    Raises WeightsError if it is not a safetensors file. Raises OSError.
    """
    return {name: (start, end) for name, (_, start, end) in _read_layout(file).items()}


def count_header_bytes(data: bytes) -> int:
    """Return the number of bytes of a safetensors file before its tensors.

    `data`: the first LENGTH_BYTES of the file.
    """
    return LENGTH_BYTES + int.from_bytes(data, "little")


def measure(folder: Path) -> Manifest:
    """Compute the manifest of the parameters on disk by reading every byte.

    Raises WeightsError, OSError.
    """
    file = folder / PARAMETERS
    layout = _read_layout(file)
    with open_regular(file) as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:

        def hashed(name: str) -> Tensor:
            entry, start, end = layout[name]
            with memoryview(mapped) as whole, whole[start:end] as data:
                digest = make_hasher(data).hexdigest()
            return Tensor(entry.dtype, entry.shape, digest)

        with ThreadPoolExecutor(os.cpu_count()) as pool:  # hashing releases the interpreter's lock
            return dict(zip(layout, pool.map(hashed, layout), strict=True))


def write(folder: Path) -> str:
    """Measure the parameters of `folder` and write its manifest. Returns the digest."""
    manifest = measure(folder)
    (folder / MANIFEST).write_bytes(msgspec.json.encode(manifest))
    return compute_digest(manifest)


def read(folder: Path, digest: str) -> Manifest:
    """Read the manifest of the weights `digest` in `folder`. Check its digest, and that the file has its tensors.

    The bytes of the tensors are not read (`verify` reads them), unless the folder lacks a manifest. Raises WeightsError
    if the folder holds other weights, OSError if they are missing.
    """
    try:
        manifest = decode(read_all(folder / MANIFEST), digest)
    except FileNotFoundError:
        manifest = measure(folder)
        if compute_digest(manifest) != digest:
            raise make_changed_error(folder, digest) from None
    layout = {name: (entry.dtype, entry.shape) for name, (entry, _, _) in _read_layout(folder / PARAMETERS).items()}
    if layout != {name: (one.dtype, one.shape) for name, one in manifest.items()}:
        raise WeightsError(f"{folder / PARAMETERS}: holds other tensors than its manifest says")
    return manifest


def decode(data: bytes, digest: str) -> Manifest:
    """Decode a manifest. Raises WeightsError unless it belongs to the weights `digest`."""
    try:
        manifest = try_decode(_manifests.decode, data)
    except UnreadableError as error:
        raise WeightsError(f"the manifest of weights {digest} cannot be read: {error}") from None
    if compute_digest(manifest) != digest:
        raise WeightsError(f"a manifest of other weights ({compute_digest(manifest)}) was found for weights {digest}")
    return manifest


def verify(folder: Path, digest: str) -> None:
    """Read every byte of the parameters. Raises WeightsError if their digest is not `digest`. Raises OSError."""
    if compute_digest(measure(folder)) != digest:
        raise make_changed_error(folder, digest)


def verify_parameters(folder: Path, named: str | None = None) -> str:
    """Return the digest of the parameters in `folder`, after reading every byte.

    The expected digest is `named`, or else the digest of the folder's manifest, if there is one. Raises WeightsError if
    the parameters have another digest than the expected one, OSError if a file cannot be read.
    """
    if named is None and (folder / MANIFEST).exists():
        try:
            named = compute_digest(try_decode(_manifests.decode, read_all(folder / MANIFEST)))
        except UnreadableError as error:
            raise WeightsError(f"{folder / MANIFEST}: cannot be read ({error})") from None
    digest = compute_digest(measure(folder))
    if named not in (None, digest):
        raise make_changed_error(folder, named or "")
    return digest


def make_changed_error(folder: Path, digest: str) -> WeightsError:
    """Return the error for parameters with another digest."""
    return WeightsError(f"{folder / PARAMETERS}: its digest is not {digest}; it was changed or cut short")


def _read_layout(file: Path) -> dict[str, tuple[_Entry, int, int]]:
    """Return the header entry of each tensor, with its bytes as [first, last) of the file."""
    with open_regular(file) as opened:
        first = count_header_bytes(opened.read(LENGTH_BYTES))
        size = os.fstat(opened.fileno()).st_size
        try:
            if first > size:
                raise ValueError("it is cut short")
            header = try_decode(_headers.decode, opened.read(first - LENGTH_BYTES))
            header.pop("__metadata__", None)
            entries = {name: try_decode(_entries.decode, bytes(raw)) for name, raw in header.items()}
            layout = {
                name: (entry, first + entry.data_offsets[0], first + entry.data_offsets[1])
                for name, entry in entries.items()
            }
            if not all(first <= start <= end <= size for _, start, end in layout.values()):
                raise ValueError("it is cut short")
            if sum(end - start for _, start, end in layout.values()) != size - first:
                raise ValueError("it has bytes outside its tensors")
        except ValueError as error:
            raise WeightsError(f"{file}: is not a whole safetensors file ({error})") from None
    return layout
