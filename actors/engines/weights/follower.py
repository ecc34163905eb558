"""Follows new weights from the first news until the engine samples from them, and checks their digests.

    heard (push or pulse) ── on this host (fetched if needed) ── ordered ── in use ── reported to the replay service
                                                                            └── every byte checked

Only the newest version is followed. If several versions arrive while one is on its way, all but the last are skipped.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import trio

from actors.engines.weights.fetch import WeightsCache
from actors.engines.weights.swap import CheckedWeights
from spade.errors import BusError, RefusedError
from spade.policy import manifest
from spade.protocol import Serving, Weights
from spade.transport import Client
from spade.transport.pump import put_newest

log = logging.getLogger(__name__)

_REMEMBERED = 1_024  # versions whose digests are kept; sequences in flight need only the last few


class Follower:
    """Keeps one engine on the newest weights. `swapped` are the weights with which the engine began.

    Sets two gauges. `swap_ms` is the time from the announcement of the weights in use until the engine sampled from
    them. `canary_mismatch` is their difference from the learner on the canary, in nats.
    """

    def __init__(self, replay: Client, cache: WeightsCache, swapped: CheckedWeights) -> None:
        self._replay = replay
        self._cache = cache
        self._version = 0
        self._heard: dict[int, float] = {}
        self._digests: dict[int, bytes] = {}
        self._new = trio.open_memory_channel[Weights](1)
        self._served = trio.open_memory_channel[Weights](1)
        self._unchecked = trio.open_memory_channel[Weights](1)
        self.served(swapped)

    async def run(self, order: Callable[[Weights], None]) -> None:
        """Follow until cancelled. `order` hands weights that are on this host to the engine's thread.

        Raises WeightsError, or RefusedError of the replay service, if the weights in use are not the published ones.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._bring, order)
            for task in (self._follow_pushes, self._follow_pulses, self._tell, self._check, self._hold_again):
                nursery.start_soon(task)

    def digests(self, versions: tuple[tuple[int, int], ...]) -> bytes:
        """Return the digests of some versions, joined in order. Empty if one of them is unknown.

        `versions` holds a pair (version, number of tokens) for each run of tokens.
        """
        found = [self._digests.get(version, b"") for version, _ in versions]
        return b"".join(found) if all(found) else b""

    def served(self, swapped: CheckedWeights) -> None:
        """Record that the engine samples from these weights now."""
        version = swapped.weights.version
        self._version = max(self._version, version)
        self._cache.served(version)
        self._digests[version] = bytes.fromhex(swapped.weights.digest)
        while len(self._digests) > _REMEMBERED:
            del self._digests[next(iter(self._digests))]
        heard = self._heard.get(version)
        self._heard = {later: at for later, at in self._heard.items() if later > version}
        if heard is not None:
            self._replay.gauges["swap_ms"] = 1e3 * (trio.current_time() - heard)
        if swapped.off is not None:
            self._replay.gauges["canary_mismatch"] = swapped.off
        put_newest(*self._served, swapped.weights)
        put_newest(*self._unchecked, swapped.weights)

    async def _follow_pushes(self) -> None:
        async for message in self._replay.pushes:
            if isinstance(message, Weights):
                self._hear(message)

    async def _follow_pulses(self) -> None:
        """Watch pulses for new weights too, because a push may be lost with its connection."""
        pulse = self._replay.pulse
        while True:
            if pulse.weights is not None:
                self._hear(pulse.weights)
            pulse = await self._replay.wait_pulse()

    def _hear(self, weights: Weights) -> None:
        if weights.version > self._version:
            self._version = weights.version
            self._heard[weights.version] = trio.current_time()
            put_newest(*self._new, weights)

    async def _bring(self, order: Callable[[Weights], None]) -> None:
        async for weights in self._new[1]:
            local = await self._cache.bring(weights)
            if local is not None:
                order(local)

    async def _tell(self) -> None:
        async for weights in self._served[1]:
            try:
                await self._replay.call(Serving(weights.version, weights.digest))
            except RefusedError:
                raise
            except BusError as error:
                log.warning("%s", error)  # do not try again: a late report is of no use

    async def _hold_again(self) -> None:
        """Tell the replay service after each of its restarts which weights we hold, because a restart forgets them."""
        life = self._replay.life
        while True:
            await self._replay.wait_pulse()
            if self._replay.life not in ("", life):
                life = self._replay.life
                try:
                    await self._cache.hold_again()
                except BusError as error:  # the service has restarted again, or the weights are retired
                    log.warning("%s", error)

    async def _check(self) -> None:
        """Check every byte of the weights in use while the engine samples.

        The check takes longer than the swap itself.
        """
        async for weights in self._unchecked[1]:
            with suppress(FileNotFoundError):  # newer weights were published, and these are already deleted
                await trio.to_thread.run_sync(manifest.verify, Path(weights.path), weights.digest)
