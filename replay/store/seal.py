"""The checksum of a record: CRC-32 over its table, key and bytes, so that a record that moved is found too."""

from collections.abc import Iterable
from zlib import crc32

from spade.errors import RunError

NOT_COMMITTED = "its bytes are not those that were committed (CRC-32)"
CRC_BYTES = 4
_WHOLE = crc32(crc32(b"").to_bytes(CRC_BYTES, "little"))  # the CRC-32 of anything that its own CRC-32 follows


class DamagedError(RunError):
    """A store that differs from what was committed. `what` names tables, and keys if they are known."""

    def __init__(self, path: str, *what: str) -> None:
        more = f" (and {len(what) - 1} more: `spade replay verify` names them)" if len(what) > 1 else ""
        super().__init__(f"{path}: {what[0]}{more}; the store is damaged, restore it from a copy")
        self.what = what


def seed(table: str) -> int:
    """The start value of a table's checksums."""
    return crc32(table.encode())


def sealed(table: str, records: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Records as stored: each followed by its checksum."""
    begin = seed(table)
    return [(key, body + crc32(body, crc32(key, begin)).to_bytes(CRC_BYTES, "little")) for key, body in records]


def unsealed(table: str, key: bytes, value: bytes) -> bytes | None:
    """The bytes of a stored record; None if they do not match its checksum."""
    return value[:-CRC_BYTES] if crc32(value, crc32(key, seed(table))) == _WHOLE else None


def text(key: bytes) -> str:
    """A key as printable characters on one line, even if its bytes are no text."""
    return repr(key)[2:-1]
