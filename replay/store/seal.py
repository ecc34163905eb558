"""Seal records with a checksum: CRC-32 over table, key and bytes. It also detects a record under a wrong key."""

from collections.abc import Iterable
from zlib import crc32

from spade.errors import RunError

NOT_COMMITTED = "its bytes are not those that were committed (CRC-32)"
CRC_BYTES = 4
_WHOLE = crc32(crc32(b"").to_bytes(CRC_BYTES, "little"))  # CRC-32 of any bytes that are followed by their own CRC-32


class DamagedError(RunError):
    """The store is damaged. `what` has one line for each fault, with its table, and its key if it is known."""

    def __init__(self, path: str, *what: str) -> None:
        more = f" (and {len(what) - 1} more: `spade replay verify` names them)" if len(what) > 1 else ""
        super().__init__(f"{path}: {what[0]}{more}; the store is damaged, restore it from a copy")
        self.what = what


def compute_seed(table: str) -> int:
    """Return the start value of a table's checksums."""
    return crc32(table.encode())


def seal_records(table: str, records: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return records in their stored form: each is followed by its checksum."""
    begin = compute_seed(table)
    return [(key, body + crc32(body, crc32(key, begin)).to_bytes(CRC_BYTES, "little")) for key, body in records]


def check_sealed(table: str, key: bytes, value: bytes) -> bytes | None:
    """Return the bytes of a stored record, or None if they do not match its checksum."""
    return value[:-CRC_BYTES] if crc32(value, crc32(key, compute_seed(table))) == _WHOLE else None


def format_key(key: bytes) -> str:
    """Return a key as printable characters on one line, even if its bytes are not text."""
    return repr(key)[2:-1]
