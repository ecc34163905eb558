"""The log of a store: values one after the other as they arrive, so that they fill their pages.

A table of its own holds for each key an entry: the value's place in the log and the CRC-32 of its bytes.
"""

import struct
import zlib
from collections.abc import Sequence
from typing import cast

import lmdb

_ENTRY = struct.Struct(">QI")
_PLACE = struct.Struct(">Q")

Handle = lmdb._Database
Records = Sequence[tuple[bytes, bytes]]


class Log:
    """`index` is the table of entries, `values` that of the values; both of one environment."""

    def __init__(self, index: Handle, values: Handle) -> None:
        self._index = index
        self._values = values

    def append(
        self, transaction: lmdb.Transaction, written: Sequence[tuple[bytes, bytes]]
    ) -> list[tuple[bytes, bytes]]:
        """Put values at the end, in the place of those that their keys had; the entries, by key."""
        for key, _ in written:
            if (entry := transaction.get(key, db=self._index)) is not None:
                self.drop(transaction, bytes(entry))
        with transaction.cursor(db=self._values) as cursor:
            first = 1 + (_PLACE.unpack(cursor.key())[0] if cursor.last() else 0)
            cursor.putmulti([(_PLACE.pack(first + i), value) for i, (_, value) in enumerate(written)], append=True)
        return [(key, _ENTRY.pack(first + i, zlib.crc32(value))) for i, (key, value) in enumerate(written)]

    def drop(self, transaction: lmdb.Transaction, entry: bytes) -> None:
        """Delete the value of an entry."""
        transaction.delete(entry[: _PLACE.size], db=self._values)

    def body(self, transaction: lmdb.Transaction, entry: bytes) -> bytes:
        """The value of an entry; nothing where it is missing."""
        return bytes(transaction.get(entry[: _PLACE.size], db=self._values) or b"")

    def bodies(self, transaction: lmdb.Transaction, keys: Sequence[bytes]) -> list[bytes]:
        """Values in the order of `keys`; fewer where one is missing."""
        with transaction.cursor(db=self._index) as index, transaction.cursor(db=self._values) as values:
            places = [entry[: _PLACE.size] for _, entry in cast(Records, index.getmulti(keys))]
            return [value for _, value in cast(Records, values.getmulti(places))]

    def whole(self, transaction: lmdb.Transaction, entry: bytes) -> bool:
        """Whether the value of an entry has the bytes that were written."""
        return bool(zlib.crc32(self.body(transaction, entry)) == _ENTRY.unpack(entry)[1])

    def entries(self, transaction: lmdb.Transaction) -> int:
        """How many values there are."""
        return int(transaction.stat(self._values)["entries"])

    def pages(self, transaction: lmdb.Transaction) -> int:
        """How many pages they fill."""
        return pages(transaction, self._values)


def pages(transaction: lmdb.Transaction, handle: Handle) -> int:
    """How many pages a table fills."""
    stat = transaction.stat(handle)
    return int(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"])
