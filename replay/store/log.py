"""A log in a store: a table of values in the order of their arrival, so that the values fill their pages.

A second table has an entry for each key: the place of its value in the log, and a checksum of key, place and value.
"""

import struct
from collections.abc import Sequence
from typing import cast
from zlib import crc32

import lmdb

from replay.store.seal import compute_seed

_ENTRY = struct.Struct(">QI")
_PLACE = struct.Struct(">Q")
_LOW = 0xFFFFFFFF

Handle = lmdb._Database
Records = Sequence[tuple[bytes, bytes]]


class Log:
    """A log in one LMDB environment. `index` is the table of entries, named `name`. `values` is the table of values."""

    def __init__(self, name: str, index: Handle, values: Handle) -> None:
        self._seed = compute_seed(name)
        self._index = index
        self._values = values

    def append(self, transaction: lmdb.Transaction, written: Records) -> list[tuple[bytes, bytes]]:
        """Append values and delete the earlier values of their keys. Returns the entries, by key."""
        for key, _ in written:
            if (entry := transaction.get(key, db=self._index)) is not None:
                self.drop(transaction, key, bytes(entry))
        with transaction.cursor(db=self._values) as cursor:
            first = 1 + (_PLACE.unpack(cursor.key())[0] if cursor.last() else 0)
            cursor.putmulti(
                [(_PLACE.pack(place), value) for place, (_, value) in enumerate(written, first)], append=True
            )
        return [
            (key, _ENTRY.pack(place, self._compute_checksum(key, place, value)))
            for place, (key, value) in enumerate(written, first)
        ]

    def _compute_checksum(self, key: bytes, place: int, value: bytes | memoryview) -> int:
        return crc32(value, crc32(key, self._seed) ^ place & _LOW)

    def drop(self, transaction: lmdb.Transaction, key: bytes, entry: bytes) -> None:
        """Delete the value of an entry, unless value or entry is damaged: the entry might name a wrong value."""
        if self.body(transaction, key, entry) is not None:
            transaction.delete(entry[: _PLACE.size], db=self._values)

    def body(self, transaction: lmdb.Transaction, key: bytes, entry: bytes) -> bytes | None:
        """Return the value of an entry, or None if the entry or the value is damaged."""
        if len(entry) != _ENTRY.size:
            return None
        place, committed = _ENTRY.unpack(entry)
        body = transaction.get(entry[: _PLACE.size], db=self._values)
        return None if body is None or self._compute_checksum(key, place, body) != committed else bytes(body)

    def bodies(self, transaction: lmdb.Transaction, keys: Sequence[bytes]) -> list[memoryview] | None:
        """Return views of values in the order of `keys`, or None if one is missing or damaged."""
        found = []
        # Moving a cursor is faster than `getmulti`, which makes a view of each key as well.
        with transaction.cursor(db=self._index) as index, transaction.cursor(db=self._values) as values:
            for key in keys:
                entry = index.get(key)
                if entry is None or len(entry) != _ENTRY.size:
                    return None
                place, committed = _ENTRY.unpack(entry)
                value = values.get(entry[: _PLACE.size])
                if value is None or self._compute_checksum(key, place, value) != committed:
                    return None
                found.append(cast(memoryview, value))
        return found

    def entries(self, transaction: lmdb.Transaction) -> int:
        """Return the number of values."""
        return int(transaction.stat(self._values)["entries"])

    def pages(self, transaction: lmdb.Transaction) -> int:
        """Return the number of pages that the values fill."""
        return count_pages(transaction, self._values)


def count_pages(transaction: lmdb.Transaction, handle: Handle) -> int:
    """Return the number of pages that a table fills."""
    stat = transaction.stat(handle)
    return int(stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"])
