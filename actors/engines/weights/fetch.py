"""Published weights on this host: the learner's folder if it is visible here, else a copy fetched from the learner.

An engine looks for the learner's folder in `weights` of its own run directory first, because the run may have been
moved or copied. Then it looks at the path that the learner published.

A copy is made in the run directory of this host's actors, for all engines on this host. Hosts pass its parts on to each
other: an engine asks other engines for each part before it asks the learner, and serves the parts that it has. The copy
is a draft until every tensor matches its digest. After a broken link or a killed engine the draft stays, so its parts
are fetched only once. Tensors that the newest copy on this host already has are copied from it.
"""

import fcntl
import logging
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import msgspec
import trio

from actors.engines.weights.draft import Draft
from actors.engines.weights.sources import PartSources
from spade.config import Bus
from spade.disk import DRAFT, discard, discard_unless_held
from spade.errors import BusError, RefusedError, WeightsError, format_reason
from spade.policy import manifest
from spade.policy.manifest import PARAMETERS
from spade.policy.model import copy_tokenizer
from spade.policy.model_folder import resolve
from spade.policy.parts import check_request, read_part
from spade.protocol import MOST_HELD, GetWeights, HoldWeights, Refused, Weights, WeightsPart
from spade.transport import Client, Server, connect

KEPT = 2  # complete copies: the newest, and the previous one, which another engine may be about to load

_ABSENT = Refused("these weights are not here")
log = logging.getLogger(__name__)


class WeightsCache:
    """Finds weights for an engine. `run` is the engine's run directory, `model` is model.path.

    * fetched_bytes: bytes fetched over the bus by this process
    * passed_bytes: the part of these bytes that came from engines
    """

    def __init__(self, replay: Client, bus: Bus, run: Path, model: str) -> None:
        self.fetched_bytes = self.passed_bytes = 0
        self._replay = replay
        self._bus = bus
        self._published = run / "weights"
        self._root = run / "fetched"
        self._model = model
        self._trusting = False
        self._drafts: dict[str, Draft] = {}  # copies that are being made here, by digest
        self._held: dict[int, str] = {}  # digest by version of the learner's folders in use or ordered

    async def bring(self, weights: Weights) -> Weights | None:
        """Bring `weights` to this host and return them with their path here.

        Returns None if they are retired already. The learner has then published newer weights.
        """
        for visible in (self._published / weights.digest, Path(weights.path)):
            if (visible / PARAMETERS).is_file():
                held = await self._hold(weights)
                return msgspec.structs.replace(weights, path=str(visible)) if held else None
        folder = self._root / weights.digest
        with self._replay.waits.on("learner", f"weights of version {weights.version}"):
            async with self._lock_copies():
                if not self._trusting:  # an earlier process of this engine may have ended because of a damaged copy
                    await trio.to_thread.run_sync(self._discard_damaged, folder)
                    self._trusting = True
                if not folder.is_dir() and not await self._fetch(weights.digest, folder):
                    return None
                os.utime(folder)
                self._prune(folder)
        return msgspec.structs.replace(weights, path=str(folder))

    def served(self, version: int) -> None:
        """Stop holding the learner's folders of older versions. The next call of `bring` tells the replay service."""
        self._held = {newer: digest for newer, digest in self._held.items() if newer >= version}

    async def hold_again(self) -> None:
        """Tell a restarted replay service which weights are held. Raises BusError."""
        if self._held:
            await self._replay.call(HoldWeights(tuple(self._held.values())[-MOST_HELD:]))

    async def _hold(self, weights: Weights) -> bool:
        """Hold the learner's folder of these weights, on any host. Returns False if they are retired already."""
        wanted = {**self._held, weights.version: weights.digest}
        while True:
            try:
                await self._replay.call(HoldWeights(tuple(wanted.values())[-MOST_HELD:]))
            except RefusedError as error:
                log.warning("%s", error)
                return False
            except BusError as error:  # try again: the learner may delete a folder if the service knows of no hold
                log.warning("%s", error)
                await self._replay.wait_pulse()
            else:
                self._held = wanted
                return True

    @asynccontextmanager
    async def _lock_copies(self) -> AsyncIterator[None]:
        """Lock the folder of copies against the other engines of this host."""
        self._root.mkdir(parents=True, exist_ok=True)
        with (self._root / "lock").open("w") as file:
            await trio.to_thread.run_sync(fcntl.flock, file, fcntl.LOCK_EX, abandon_on_cancel=True)
            yield

    def _discard_damaged(self, folder: Path) -> None:
        """Discard a copy if its bytes do not match the digest in its name. Raises OSError."""
        if folder.is_dir():
            try:
                manifest.read(folder, folder.name)
                manifest.verify(folder, folder.name)
            except (FileNotFoundError, WeightsError) as error:
                log.warning("a damaged copy is fetched again: %s", error)
                discard(folder)

    async def _fetch(self, digest: str, folder: Path) -> bool:
        """Make the copy. Returns False if the learner has retired the weights."""
        draft = self._root / f"{DRAFT}{digest}"
        draft.mkdir(exist_ok=True)
        copy = self._drafts[digest] = Draft(draft, digest, self._list_copies()[-1:])
        try:
            if not await self._fill(copy):
                return False
            copy_tokenizer(resolve(self._model), draft)
            os.replace(draft, folder)
        finally:
            del self._drafts[digest]
            self.fetched_bytes += copy.fetched_bytes
            self.passed_bytes += copy.passed_bytes
        log.info("weights %s: %s", digest, copy.describe())
        return True

    async def _fill(self, copy: Draft) -> bool:
        """Fill a draft, however often the link breaks. Returns False if the learner has retired the weights."""
        while True:
            try:
                async with connect(await self._wait_for_learner(), self._replay.hello, bus=self._bus) as learner:
                    sources = PartSources(learner)
                    async with sources.asking(self._list_engines(), self._replay.hello, self._bus):
                        await copy.fill(sources)
                return True
            except RefusedError as error:
                log.warning("%s", error)
                shutil.rmtree(copy.folder)
                return False
            except WeightsError:
                shutil.rmtree(copy.folder)  # no part of the draft can be trusted: begin again
                raise
            except BusError as error:
                log.warning("%s; the fetch will go on with the missing parts", error)
                await self._replay.wait_pulse()

    async def _wait_for_learner(self) -> str:
        """Wait until the learner serves its weights. Return its address."""
        while True:
            for peer in self._replay.pulse.peers:
                if peer.role == "learner":
                    return peer.address
            await self._replay.wait_pulse()

    def _list_engines(self) -> list[str]:
        """Return the addresses of other engines, which may have parts."""
        ours = self._replay.hello.address
        return [peer.address for peer in self._replay.pulse.peers if peer.role == "engine" and peer.address != ours]

    async def pass_on(self, server: Server) -> None:
        """Serve downloaded parts to engines on other hosts until cancelled.

        Includes the parts of an unfinished copy.
        """
        inbox, most = server.apart(GetWeights), self._bus.max_message_bytes // 2
        while True:
            incoming = await inbox.take()
            request = cast(GetWeights, incoming.message)
            await server.reply(incoming, await trio.to_thread.run_sync(self._read_part, request, most))

    def _read_part(self, request: GetWeights, most: int) -> WeightsPart | Refused:
        if refused := check_request(request):
            return refused
        copy = self._drafts.get(request.digest)
        folders = (self._root / request.digest, self._published / request.digest)
        try:
            if copy is not None and (found := copy.give(request, most)):
                return found
            parts = (read_part(folder, request, most) for folder in folders)
            return next((each for each in parts if isinstance(each, WeightsPart)), _ABSENT)
        except OSError as error:  # the other host then asks another engine
            log.warning("a part of weights %s cannot be read: %s", request.digest, format_reason(error))
            return _ABSENT

    def _list_copies(self) -> list[Path]:
        """Return complete copies, the newest last."""
        whole = [path for path in self._root.iterdir() if path.is_dir() and not path.name.startswith(".")]
        return sorted(whole, key=lambda path: path.stat().st_mtime_ns)

    def _prune(self, newest: Path) -> None:
        """Delete old copies that no engine is loading, and drafts of other versions, which nobody will finish.

        Never deletes `newest`.
        """
        for path in [path for path in self._list_copies() if path != newest][: 1 - KEPT]:
            discard_unless_held(path, PARAMETERS)
        for path in self._root.glob(f"{DRAFT}*"):
            discard(path)
