"""A copy of published weights in the making."""

import logging
import os
import random
from pathlib import Path

import trio

from actors.engines.weights.missing import MissingParts
from actors.engines.weights.sources import Sources
from spade.errors import BusError, WeightsError
from spade.policy import manifest
from spade.policy.canary import FILE as CANARY
from spade.policy.manifest import MANIFEST, PARAMETERS, Manifest
from spade.protocol import GetWeights, WeightsPart

PART_BYTES = 8 << 20
MOST_AT_ONCE = 3  # further parts under way, where engines may have them

log = logging.getLogger(__name__)


class Draft:
    """The draft in `folder` of the weights `digest`; `older`: at most one whole copy, for tensors that did not change.

    fetched_bytes  over the bus; `passed_bytes` of them from engines
    """

    def __init__(self, folder: Path, digest: str, older: list[Path]) -> None:
        self.folder = folder
        self.fetched_bytes = self.passed_bytes = 0
        self._digest = digest
        self._older = older
        self._since = trio.current_time()
        self._missing: MissingParts | None = None

    def told(self) -> str:
        """The whole fetch, in words."""
        seconds = trio.current_time() - self._since
        return f"{self.fetched_bytes / 1e6:.1f} MB fetched in {seconds:.2f} s, {self.passed_bytes / 1e6:.1f} of engines"

    def has(self, request: GetWeights) -> bool:
        """True if the requested bytes of the parameters are here; they may be damaged."""
        wanted = request.offset, request.count
        return request.file == PARAMETERS and self._missing is not None and self._missing.has(*wanted)

    async def fill(self, sources: Sources) -> None:
        """Fetch what is missing. Raises BusError; WeightsError if the learner's files do not match."""
        try:
            await self._fill(sources)
        finally:
            self.passed_bytes += sources.engine_bytes

    async def _fill(self, sources: Sources) -> None:
        draft, digest = self.folder, self._digest
        whole = {name: await self._file(sources, name) for name in (MANIFEST, CANARY, "config.json")}
        wanted = manifest.decode(whole[MANIFEST], digest)
        for name, data in whole.items():
            (draft / name).write_bytes(data)
        file = draft / PARAMETERS
        have = await trio.to_thread.run_sync(manifest.measure, draft) if file.exists() else {}
        if not have:
            await self._begin(sources, file)
        spans = manifest.spans(file)
        if spans.keys() != wanted.keys():
            raise WeightsError(f"the learner's {PARAMETERS} of {digest} holds other tensors than its manifest says")
        have |= await trio.to_thread.run_sync(self._reuse, wanted, spans, have, file)
        await self._collect(sources, file, [spans[name] for name in wanted if have.get(name) != wanted[name]])
        found = await trio.to_thread.run_sync(manifest.measure, draft)
        if wrong := [name for name in wanted if found.get(name) != wanted[name]]:
            log.warning("%d tensors came damaged, and are fetched anew from the learner", len(wrong))
            await self._collect(sources.learner_alone(), file, [spans[name] for name in wrong])
            await trio.to_thread.run_sync(manifest.verify, draft, digest)

    async def _collect(self, sources: Sources, file: Path, lacking: list[tuple[int, int]]) -> None:
        """Fetch byte ranges of the parameters. Raises BusError."""
        missing = self._missing = MissingParts(lacking, PART_BYTES, random.random() if sources.engines else 0.0)
        failed = list[BusError]()

        async def work(scope: trio.CancelScope) -> None:
            try:
                while (wanted := missing.take()) is not None:
                    await self._bring(sources, opened.fileno(), *wanted)
                    missing.put(wanted[0])
            except BusError as error:
                failed.append(error)
                scope.cancel()

        with file.open("r+b") as opened:
            async with trio.open_nursery() as nursery:
                for _ in range(1 + min(sources.engines, MOST_AT_ONCE)):
                    nursery.start_soon(work, nursery.cancel_scope)
        if failed:
            raise failed[0]

    async def _bring(self, sources: Sources, file: int, start: int, end: int) -> None:
        """Fetch one byte range into the file."""
        while start < end:
            part = await self._part(sources, PARAMETERS, start, end - start)
            start += await trio.to_thread.run_sync(os.pwrite, file, part.data[: end - start], start)

    async def _begin(self, sources: Sources, file: Path) -> None:
        """Make the file at its full length, with only its header. It appears at once, so no draft has half a header."""
        learner = sources.learner_alone()
        part = await self._part(learner, PARAMETERS, 0, manifest.LENGTH_BYTES)
        header = bytearray(part.data)
        first = manifest.header_bytes(part.data)
        while len(header) < first:
            header += (await self._part(learner, PARAMETERS, len(header), first - len(header))).data
        new = file.with_suffix(".new")
        with new.open("wb") as opened:
            opened.write(header)
            opened.truncate(part.size)
        new.replace(file)

    def _reuse(self, wanted: Manifest, spans: manifest.Spans, have: Manifest, file: Path) -> Manifest:
        """Copy the tensors that did not change from the older copy; returns them."""
        if not self._older:
            return {}
        (source,) = self._older
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

    async def _file(self, sources: Sources, name: str) -> bytes:
        """A small file, whole, from the learner."""
        data, size = b"", 1
        while len(data) < size:
            part = await self._part(sources.learner_alone(), name, len(data), PART_BYTES)
            data, size = data + part.data, part.size
        return data

    async def _part(self, sources: Sources, name: str, offset: int, count: int) -> WeightsPart:
        part = await sources.part(GetWeights(self._digest, name, offset, min(count, PART_BYTES)))
        self.fetched_bytes += len(part.data)
        return part
