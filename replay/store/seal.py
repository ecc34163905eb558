"""The checksum of a record: CRC-32 over its table, its key and its bytes, so that one that moved is found too."""

import struct
import zlib

from spade.errors import RunError

CRC = struct.Struct(">I")
NOT_COMMITTED = "its bytes are not those that were committed (CRC-32)"


class DamagedError(RunError):
    """A store that does not hold what was committed to it. `what` names tables, and keys where they are known."""

    def __init__(self, path: str, *what: str) -> None:
        more = f" (and {len(what) - 1} more: `spade replay verify` names them)" if len(what) > 1 else ""
        super().__init__(f"{path}: {what[0]}{more}; the store is damaged, restore it from a copy")
        self.what = what


def checksum(table: str, key: bytes, body: bytes) -> int:
    """The CRC-32 of a record."""
    return zlib.crc32(body, zlib.crc32(b"%s\0%s\0" % (table.encode(), key)))


def sealed(table: str, key: bytes, body: bytes) -> bytes:
    """A record as it rests: its bytes and their checksum."""
    return body + CRC.pack(checksum(table, key, body))


def unsealed(table: str, key: bytes, value: bytes) -> bytes | None:
    """The bytes of a record that rested; None where they are not those that were sealed."""
    body = value[: -CRC.size]
    return body if value[-CRC.size :] == CRC.pack(checksum(table, key, body)) else None
