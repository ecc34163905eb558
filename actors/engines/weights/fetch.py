"""Published weights on this host: the learner's folder if it is visible here, else a copy fetched from the learner.

The learner's folder is `weights` of our own run directory, which holds for a run that was moved or copied too, or else
the path of the publication, which is in another run directory.

A copy is made in the run directory of this host's actors, for all engines there. It is a draft until every tensor has
its digest; a broken link or a killed engine leaves a draft, which is kept, so that its parts are fetched once. Tensors
that the newest copy here already has are taken from it.
"""

import fcntl
import logging
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import trio

from spade.config import Bus
from spade.disk import DRAFT, discard, discard_unless_held
from spade.errors import BusError, RefusedError, WeightsError
from spade.policy import manifest
from spade.policy.canary import FILE as CANARY
from spade.policy.manifest import MANIFEST, PARAMETERS, Manifest
from spade.policy.model import copy_tokenizer
from spade.policy.model_folder import resolve
from spade.protocol import GetWeights, Weights, WeightsPart
from spade.transport import Client, connect

PART_BYTES = 8 << 20
KEPT = 2  # copies: the newest, and the one before, for tensors that did not change

log = logging.getLogger(__name__)


class Shelf:
    """Where an engine finds weights. `run` is its run directory, `model` is model.path.

    fetched_bytes  over the bus, by this process
    """

    def __init__(self, replay: Client, bus: Bus, run: Path, model: str) -> None:
        self.fetched_bytes = 0
        self._replay = replay
        self._bus = bus
        self._published = run / "weights"
        self._root = run / "fetched"
        self._model = model
        self._trusting = False

    async def bring(self, weights: Weights) -> Weights | None:
        """`weights` with their path on this host; None if they are retired already: newer ones will come."""
        for seen in (self._published / weights.digest, Path(weights.path)):
            if (seen / PARAMETERS).is_file():
                return msgspec.structs.replace(weights, path=str(seen))
        folder = self._root / weights.digest
        with self._replay.waits.on("learner", f"weights of version {weights.version}"):
            async with self._alone():
                if not self._trusting:  # a damaged copy may be what ended this engine's life before
                    await trio.to_thread.run_sync(self._discard_damaged, folder)
                    self._trusting = True
                if not folder.is_dir() and not await self._fetch(weights.digest, folder):
                    return None
                os.utime(folder)
                self._prune(folder)
        return msgspec.structs.replace(weights, path=str(folder))

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Lock the folder of copies against the other engines of this host."""
        self._root.mkdir(parents=True, exist_ok=True)
        with (self._root / "lock").open("w") as file:
            await trio.to_thread.run_sync(fcntl.flock, file, fcntl.LOCK_EX, abandon_on_cancel=True)
            yield

    def _discard_damaged(self, folder: Path) -> None:
        """Discard a copy whose bytes do not have the digest in its name. Raises OSError."""
        if folder.is_dir():
            try:
                manifest.read(folder, folder.name)
                manifest.verify(folder, folder.name)
            except (FileNotFoundError, WeightsError) as error:
                log.warning("fetched anew: %s", error)
                discard(folder)

    async def _fetch(self, digest: str, folder: Path) -> bool:
        """Make the copy, however often the link breaks. False if the learner has retired the weights."""
        draft = self._root / f"{DRAFT}{digest}"
        draft.mkdir(exist_ok=True)
        started, before = trio.current_time(), self.fetched_bytes
        while True:
            try:
                async with connect(await self._learner(), self._replay.hello, bus=self._bus) as learner:
                    await self._fill(learner, digest, draft)
                break
            except RefusedError as error:
                log.warning("%s", error)
                shutil.rmtree(draft)
                return False
            except WeightsError:
                shutil.rmtree(draft)  # nothing of it can be trusted: begin anew
                raise
            except BusError as error:
                log.warning("%s; fetching on from where it was", error)
                await self._replay.wait_pulse()
        copy_tokenizer(resolve(self._model), draft)
        os.replace(draft, folder)
        bytes_, seconds = self.fetched_bytes - before, trio.current_time() - started
        log.info("weights %s: %.1f MB fetched in %.2f s", digest, bytes_ / 1e6, seconds)
        return True

    async def _learner(self) -> str:
        """The address at which the learner serves its weights now."""
        while True:
            for peer in self._replay.pulse.peers:
                if peer.role == "learner":
                    return peer.address
            await self._replay.wait_pulse()

    async def _fill(self, learner: Client, digest: str, draft: Path) -> None:
        """Fetch the missing parts of the draft. Raises BusError; WeightsError if the learner's files do not match."""
        whole = {name: await self._file(learner, digest, name) for name in (MANIFEST, CANARY, "config.json")}
        wanted = manifest.decode(whole[MANIFEST], digest)
        for name, data in whole.items():
            (draft / name).write_bytes(data)
        file = draft / PARAMETERS
        have = await trio.to_thread.run_sync(manifest.measure, draft) if file.exists() else {}
        if not have:
            await self._begin(learner, digest, file)
        spans = manifest.spans(file)
        if spans.keys() != wanted.keys():
            raise WeightsError(f"the learner's {PARAMETERS} of {digest} holds other tensors than its manifest says")
        have |= await trio.to_thread.run_sync(self._reuse, wanted, spans, have, file)
        with file.open("r+b") as opened:
            for start, end in _joined([spans[name] for name in wanted if have.get(name) != wanted[name]]):
                while start < end:
                    part = await self._part(learner, digest, PARAMETERS, start, end - start)
                    start += await trio.to_thread.run_sync(os.pwrite, opened.fileno(), part.data, start)
        await trio.to_thread.run_sync(manifest.verify, draft, digest)

    async def _begin(self, learner: Client, digest: str, file: Path) -> None:
        """Make the file at its full length, with only its header. It appears at once, so no draft has half a header."""
        part = await self._part(learner, digest, PARAMETERS, 0, manifest.LENGTH_BYTES)
        header = bytearray(part.data)
        first = manifest.header_bytes(part.data)
        while len(header) < first:
            header += (await self._part(learner, digest, PARAMETERS, len(header), first - len(header))).data
        new = file.with_suffix(".new")
        with new.open("wb") as opened:
            opened.write(header)
            opened.truncate(part.size)
        new.replace(file)

    def _reuse(self, wanted: Manifest, spans: manifest.Spans, have: Manifest, file: Path) -> Manifest:
        """Copy the tensors that did not change from the newest copy; returns them."""
        copies = self._copies()
        if not copies:
            return {}
        source = copies[-1]
        try:
            old, places = manifest.read(source, source.name), manifest.spans(source / PARAMETERS)
        except (FileNotFoundError, WeightsError) as error:
            log.warning("nothing is taken from a damaged copy: %s", error)
            return {}
        taken = {}
        with (source / PARAMETERS).open("rb") as read, file.open("r+b") as write:
            for name, one in wanted.items():
                if not old.get(name) == one != have.get(name):
                    continue
                (start, end), (at, _), hashed = places[name], spans[name], manifest.hasher()
                while start < end:
                    data = os.pread(read.fileno(), min(end - start, PART_BYTES), start)
                    done = os.pwrite(write.fileno(), data, at)
                    hashed.update(data[:done])
                    start, at = start + done, at + done
                if hashed.hexdigest() == one.digest:
                    taken[name] = one
        return taken

    async def _file(self, learner: Client, digest: str, name: str) -> bytes:
        """A small file, whole."""
        data, size = b"", 1
        while len(data) < size:
            part = await self._part(learner, digest, name, len(data), PART_BYTES)
            data, size = data + part.data, part.size
        return data

    async def _part(self, learner: Client, digest: str, name: str, offset: int, count: int) -> WeightsPart:
        part = await learner.call(GetWeights(digest, name, offset, min(count, PART_BYTES)))
        if not part.data:
            raise BusError(f"{learner.address}: the learner answered GetWeights with nothing of {name} at {offset}")
        self.fetched_bytes += len(part.data)
        return part

    def _copies(self) -> list[Path]:
        """Whole copies, the newest last."""
        whole = [path for path in self._root.iterdir() if path.is_dir() and not path.name.startswith(".")]
        return sorted(whole, key=lambda path: path.stat().st_mtime_ns)

    def _prune(self, newest: Path) -> None:
        """Delete the old copies that no engine is loading, and the drafts, which nobody will ask for again.

        `newest` stays, whatever its time says.
        """
        for path in [path for path in self._copies() if path != newest][: 1 - KEPT]:
            discard_unless_held(path, PARAMETERS)
        for path in self._root.glob(f"{DRAFT}*"):
            discard(path)


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Byte ranges in order, neighbours joined."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
