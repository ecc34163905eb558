"""Fetch programs by digest, check them, and keep the most recently used ones in memory."""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import trio

from spade.codec import compute_program_digest
from spade.errors import BusError, RefusedError
from spade.protocol import Faulted

PROGRAMS = 1_024
BYTES = 64 << 20

log = logging.getLogger(__name__)


class _Fetch:
    """A fetch under way. Other callers for the same program wait for its outcome."""

    def __init__(self) -> None:
        self.over = trio.Event()
        self.outcome: str | Faulted = Faulted("infrastructure", "the env-runner ended")


class Programs:
    """A cache of the most recently used programs: at most `most` programs, and at most `most_bytes` bytes.

    The newest program is kept even if it is larger. An episode holds its own program, so any program may be dropped
    here. `fetch` returns the program of a digest. It raises RefusedError if the program does not exist, and BusError if
    it cannot be fetched now. `fetches` counts its calls.
    """

    def __init__(self, fetch: Callable[[str], Awaitable[str]], most: int = PROGRAMS, most_bytes: int = BYTES) -> None:
        self.fetches = 0
        self._fetch = fetch
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()  # UTF-8: the size of a str grows when it is encoded
        self._coming: dict[str, _Fetch] = {}

    def keep(self, source: str) -> None:
        """Add a program, so that plays may name it from now on."""
        digest = compute_program_digest(source)
        if digest not in self._kept:
            self._kept[digest] = source.encode()
            self._bytes += len(self._kept[digest])
        self._kept.move_to_end(digest)
        while len(self._kept) > 1 and (len(self._kept) > self._most or self._bytes > self._most_bytes):
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= len(dropped)

    async def get(self, digest: str) -> str | Faulted:
        """Return the program, or a fault that does not blame the program if it cannot be fetched.

        Concurrent callers share one fetch.
        """
        if digest in self._kept:
            self._kept.move_to_end(digest)
            return self._kept[digest].decode()
        coming = self._coming.get(digest)
        if coming is not None:
            await coming.over.wait()
            return coming.outcome
        coming = self._coming[digest] = _Fetch()
        try:
            coming.outcome = await self._fetch_program(digest)
        finally:
            del self._coming[digest]
            coming.over.set()
        return coming.outcome

    async def _fetch_program(self, digest: str) -> str | Faulted:
        self.fetches += 1
        try:
            source = await self._fetch(digest)
        except RefusedError as error:
            return Faulted("unknown", str(error))
        except BusError as error:
            return Faulted("infrastructure", str(error))
        if compute_program_digest(source) != digest:
            log.error("the fetched program does not have the digest %r", digest)
            return Faulted("infrastructure", f"the fetched program does not have the digest {digest!r}")
        self.keep(source)
        return source
