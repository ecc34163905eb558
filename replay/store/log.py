"""The log of a store: values one after the other as they arrive, so that they fill their pages.

A table of its own holds for each key an entry: the value's place in the log and its checksum.
"""

import struct
from collections.abc import Sequence
from typing import cast

import lmdb

from replay.store.seal import checksum, sealed, unsealed

_ENTRY = struct.Struct(">QI")
_PLACE = struct.Struct(">Q")

Handle = lmdb._Database
Records = Sequence[tuple[bytes, bytes]]


class Log:
    """`index` is the table of entries, of this `name`; `values` that of the values; both of one environment."""

    def __init__(self, name: str, index: Handle, values: Handle) -> None:
        self._name = name
        self._index = index
        self._values = values

    def append(self, transaction: lmdb.Transaction, written: Records) -> list[tuple[bytes, bytes]]:
        """Put values at the end, in the place of those that their keys had; the sealed entries, by key."""
        for key, _ in written:
            if (entry := transaction.get(key, db=self._index)) is not None:
                self.drop(transaction, key, bytes(entry))
        with transaction.cursor(db=self._values) as cursor:
            first = 1 + (_PLACE.unpack(cursor.key())[0] if cursor.last() else 0)
            cursor.putmulti([(_PLACE.pack(first + i), value) for i, (_, value) in enumerate(written)], append=True)
        return [
            (key, sealed(self._name, key, _ENTRY.pack(first + i, checksum(self._name, key, value))))
            for i, (key, value) in enumerate(written)
        ]

    def drop(self, transaction: lmdb.Transaction, key: bytes, entry: bytes) -> None:
        """Delete the value of an entry; nothing where the entry is damaged, so that no other's value goes."""
        if (sound := unsealed(self._name, key, entry)) is not None:
            transaction.delete(sound[: _PLACE.size], db=self._values)

    def body(self, transaction: lmdb.Transaction, key: bytes, entry: bytes) -> bytes | None:
        """The value of an entry; None where either is damaged."""
        if (sound := unsealed(self._name, key, entry)) is None:
            return None
        place, committed = _ENTRY.unpack(sound)
        body = bytes(transaction.get(_PLACE.pack(place), db=self._values) or b"")
        return body if body and checksum(self._name, key, body) == committed else None

    def bodies(self, transaction: lmdb.Transaction, keys: Sequence[bytes]) -> list[bytes | None]:
        """Values in the order of `keys`, which must be there; None where one is damaged."""
        with transaction.cursor(db=self._index) as index, transaction.cursor(db=self._values) as values:
            entries = [unsealed(self._name, key, entry) for key, entry in cast(Records, index.getmulti(keys))]
            if len(entries) < len(keys) or None in entries:
                return [self._found(transaction, key) for key in keys]
            sound = [_ENTRY.unpack(entry) for entry in entries if entry is not None]
            found = [value for _, value in cast(Records, values.getmulti([_PLACE.pack(place) for place, _ in sound]))]
        if len(found) < len(keys):
            return [self._found(transaction, key) for key in keys]
        return [
            value if checksum(self._name, key, value) == committed else None
            for key, value, (_, committed) in zip(keys, found, sound, strict=True)
        ]

    def _found(self, transaction: lmdb.Transaction, key: bytes) -> bytes | None:
        entry = transaction.get(key, db=self._index)
        return None if entry is None else self.body(transaction, key, bytes(entry))

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
