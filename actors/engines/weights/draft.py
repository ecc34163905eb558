"""An unfinished copy of published weights."""

import logging
import os
from pathlib import Path

import msgspec
import trio

from actors.engines.weights.missing import MissingParts
from actors.engines.weights.sources import PartSources
from actors.engines.weights.swarm import Swarm
from spade.errors import WeightsError
from spade.policy import manifest
from spade.policy.canary import FILE as CANARY
from spade.policy.manifest import MANIFEST, PARAMETERS, Manifest
from spade.policy.parts import read_part
from spade.protocol import GetWeights, Refused, WeightsPart

PART_BYTES = 1 << 20

log = logging.getLogger(__name__)


class Draft:
    """An unfinished copy of weights, in `folder`. `digest` is the digest of the finished copy.

    `older` lists at most one complete copy of older weights. Unchanged tensors are copied from this copy.

    * fetched_bytes: bytes fetched over the bus
    * passed_bytes: the part of these bytes that came from engines
    """

    def __init__(self, folder: Path, digest: str, older: list[Path]) -> None:
        self.folder = folder
        self.fetched_bytes = self.passed_bytes = 0
        self._digest = digest
        self._older = older
        self._since = trio.current_time()
        self._missing: MissingParts | None = None

    def describe(self) -> str:
        """Describe the whole fetch for the log."""
        fetched, passed, seconds = self.fetched_bytes / 1e6, self.passed_bytes / 1e6, trio.current_time() - self._since
        return f"{fetched:.1f} MB fetched in {seconds:.2f} s, {passed:.1f} MB from engines"

    def give(self, request: GetWeights, most: int) -> WeightsPart | None:
        """Return parameters for another host, cut to `most` bytes, with the list of missing parts.

        The bytes may be damaged. Returns a part without data if the bytes are not here yet, None if the fetch of
        parameters has not begun. Raises OSError if the file cannot be read.
        """
        missing = self._missing
        if missing is None or request.file != PARAMETERS:
            return None
        # Read the list first. If the part arrives before the next line, it is sent although the list calls it missing.
        bits = missing.lacking
        complete = missing.has(request.offset, request.count)
        found = read_part(self.folder, request, most if complete else 0)
        if isinstance(found, Refused):  # the draft has just been renamed to a finished copy
            return None
        return msgspec.structs.replace(found, lacking=bits.to_bytes(-(-bits.bit_length() // 8), "little"))

    async def fill(self, sources: PartSources) -> None:
        """Fetch the missing parts. Raises BusError, or WeightsError if the learner's files have another digest."""
        try:
            await self._fill(sources)
        finally:
            self.fetched_bytes += sources.fetched_bytes
            self.passed_bytes += sources.engine_bytes

    async def _fill(self, sources: PartSources) -> None:
        draft, digest = self.folder, self._digest
        whole = {name: await self._fetch_file(sources, name) for name in (MANIFEST, CANARY, "config.json")}
        wanted = manifest.decode(whole[MANIFEST], digest)
        for name, data in whole.items():
            (draft / name).write_bytes(data)
        file = draft / PARAMETERS
        have = await trio.to_thread.run_sync(manifest.measure, draft) if file.exists() else {}
        if not have:
            await self._begin(sources, file)
        spans = manifest.read_spans(file)
        if spans.keys() != wanted.keys():
            raise WeightsError(f"the learner's {PARAMETERS} of {digest} holds other tensors than its manifest says")
        have |= await trio.to_thread.run_sync(self._reuse, wanted, spans, have, file)
        await self._collect(sources, file, [spans[name] for name in wanted if have.get(name) != wanted[name]])
        found = await trio.to_thread.run_sync(manifest.measure, draft)
        if wrong := [name for name in wanted if found.get(name) != wanted[name]]:
            log.warning("%d tensors arrived damaged and are fetched again from the learner", len(wrong))
            await self._collect(sources, file, [spans[name] for name in wrong], engines=False)
            await trio.to_thread.run_sync(manifest.verify, draft, digest)

    async def _collect(
        self, sources: PartSources, file: Path, lacking: list[tuple[int, int]], *, engines: bool = True
    ) -> None:
        """Fetch byte ranges of the parameters. Raises BusError."""
        missing = self._missing = MissingParts(lacking, PART_BYTES, sources.begin)
        with file.open("r+b") as opened:
            await Swarm(sources, missing, self._digest, opened.fileno()).bring(engines=engines)

    async def _begin(self, sources: PartSources, file: Path) -> None:
        """Create the file at its full length with only its header.

        The file gets its name only after the header is written, so a draft never has half a header.
        """
        opening = await self._fetch_part(sources, PARAMETERS, 0, manifest.LENGTH_BYTES)
        header = bytearray(opening.data)
        first = manifest.count_header_bytes(opening.data)
        while len(header) < first:
            header += (await self._fetch_part(sources, PARAMETERS, len(header), first - len(header))).data
        new = file.with_suffix(".new")
        with new.open("wb") as opened:
            opened.write(header)
            opened.truncate(opening.size)
        new.replace(file)

    def _reuse(self, wanted: Manifest, spans: manifest.Spans, have: Manifest, file: Path) -> Manifest:
        """Copy unchanged tensors from the older copy and return them."""
        if not self._older:
            return {}
        (source,) = self._older
        try:
            old, places = manifest.read(source, source.name), manifest.read_spans(source / PARAMETERS)
        except (FileNotFoundError, WeightsError) as error:
            log.warning("the older copy is damaged, so no tensor is copied from it: %s", error)
            return {}
        taken = {}
        with (source / PARAMETERS).open("rb") as read, file.open("r+b") as write:
            for name, one in wanted.items():
                if not old.get(name) == one != have.get(name):
                    continue
                (start, end), (at, _), hashed = places[name], spans[name], manifest.make_hasher()
                while start < end:
                    data = os.pread(read.fileno(), min(end - start, PART_BYTES), start)
                    done = os.pwrite(write.fileno(), data, at)
                    hashed.update(data[:done])
                    start, at = start + done, at + done
                if hashed.hexdigest() == one.digest:
                    taken[name] = one
        return taken

    async def _fetch_file(self, sources: PartSources, name: str) -> bytes:
        """Fetch a small file, whole, from the learner."""
        data, size = b"", 1
        while len(data) < size:
            came = await self._fetch_part(sources, name, len(data), PART_BYTES)
            data, size = data + came.data, came.size
        return data

    async def _fetch_part(self, sources: PartSources, name: str, offset: int, count: int) -> WeightsPart:
        return await sources.part(GetWeights(self._digest, name, offset, min(count, PART_BYTES)))
