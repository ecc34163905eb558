"""Weights over the bus, between a learner's folder and a host that does not see it."""

import os
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import torch
import trio
from safetensors.torch import save

from actors.engines.weights import draft, fetch, swarm
from actors.engines.weights.fetch import WeightsCache
from learner import weights as learner
from learner.broadcast import broadcast
from spade import disk
from spade.config import Bus, Config, compute_digest
from spade.errors import WeightsError
from spade.policy import manifest
from spade.policy.model import load
from spade.policy.parts import check_request, read_part
from spade.protocol import GetWeights, Peer, Refused, Weights, WeightsPart
from spade.transport import Client, connect, serve
from spade.transport.pump import run_in_background
from tests.actors.small_services import SmallReplay, small_replay
from tests.peers import alone, connected, hello

CONFIG = Config(bus=Bus(heartbeat_s=0.05, silence_s=2.0))
HASTY = Bus(heartbeat_s=0.05, silence_s=2.0, call_deadline_s=1.0)  # for who waits for a learner that is gone
DEADLINE_S = 120  # of what takes a second on an idle machine


class Far:
    """A learner's folder, of which the engine's host sees the addresses in a pulse alone."""

    def __init__(self, root: Path, checkpoint: Path) -> None:
        self.root = root / "weights"
        self.model = load(checkpoint, dtype="float32", device=torch.device("cpu"))
        self.replay = SmallReplay()
        self._checkpoint = checkpoint
        self._version = 0

    @torch.no_grad()
    def publish(self, changed: str = "") -> Weights:
        """Publish with the tensors changed whose names hold `changed`."""
        for name, tensor in self.model.state_dict().items():
            if changed in name:
                tensor.add_(1.0)
        self._version += 1
        named, _ = learner.publish(self.model, "float32", self._checkpoint, self.root)
        return Weights(self._version, self._version, named, f"/of/another/host/{named}")

    @asynccontextmanager
    async def up(self, bind: str = "tcp://127.0.0.1:0"):
        async with broadcast(bind, self.root, CONFIG) as address:
            self.replay.peers = (Peer("learner", "learner", address),)
            yield

    @asynccontextmanager
    async def cache(self, home: Path, bus: Bus = CONFIG.bus):
        """An engine's cache on a host of its own; `bus` is for its calls of the learner."""
        async with small_replay(self.replay, CONFIG) as server, connected(server.address, CONFIG, "engine") as replay:
            yield WeightsCache(replay, bus, home, str(self._checkpoint))

    @asynccontextmanager
    async def host(self, home: Path, name: str):
        """The cache of an engine that serves: one of a host of its own, which others may ask for parts."""
        served = serve("tcp://127.0.0.1:0", digest=compute_digest(CONFIG), bus=CONFIG.bus)
        async with served as server, small_replay(self.replay, CONFIG) as fake:
            ours = hello(CONFIG, "engine", name, server.address)
            async with connect(fake.address, ours, bus=CONFIG.bus) as replay:
                cache = WeightsCache(replay, CONFIG.bus, home, str(self._checkpoint))
                self.replay.peers += (Peer("engine", name, server.address),)
                async with run_in_background(partial(cache.pass_on, server)):
                    yield cache


@pytest.fixture
def far(tmp_path, tiny_checkpoint, monkeypatch):
    monkeypatch.setattr(draft, "PART_BYTES", 4_096)  # so that the tiny model takes some thirty parts
    return Far(tmp_path / "learner", tiny_checkpoint)


def size(far: Far, weights: Weights) -> int:
    return (far.root / weights.digest / manifest.PARAMETERS).stat().st_size


def small(here: Weights) -> int:
    """Bytes of the files that are fetched whole with every version."""
    return sum((Path(here.path) / name).stat().st_size for name in ("manifest.json", "canary.json", "config.json"))


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


async def test_a_copy_is_the_learners_folder_to_the_byte_of_every_tensor(far, tmp_path):
    weights = far.publish()
    async with far.up(), far.cache(tmp_path) as cache:
        here = await cache.bring(weights)
        fetched = cache.fetched_bytes
        assert await cache.bring(weights) == here
        assert cache.fetched_bytes == fetched, "what is here is not fetched again"
    assert (here.version, here.digest) == (weights.version, weights.digest)
    assert Path(here.path).parent == tmp_path / "fetched"
    manifest.verify(Path(here.path), weights.digest)
    theirs = far.root / weights.digest
    assert names(Path(here.path)) == names(theirs)
    loaded = load(Path(here.path), dtype="float32", device=torch.device("cpu"), digest=weights.digest)
    ids = torch.arange(9)[None]
    assert torch.equal(loaded(ids).logits, far.model(ids).logits)


async def test_a_folder_that_is_seen_is_not_copied(far, tmp_path):
    weights = far.publish()
    seen = Weights(1, 1, weights.digest, str(far.root / weights.digest))
    async with far.cache(tmp_path) as cache:
        assert await cache.bring(seen) == seen
    assert not (tmp_path / "fetched").exists()


async def test_a_fetch_that_breaks_goes_on_from_where_it_was(far, tmp_path, monkeypatch):
    weights = far.publish()
    asked, call = [], Client.call

    async def counted(self, request, deadline_s=None):
        if isinstance(request, GetWeights):
            asked.append(request.offset if request.file == manifest.PARAMETERS else -1)
            if len(asked) == 15:
                down.cancel()
        return await call(self, request, deadline_s)

    monkeypatch.setattr(Client, "call", counted)
    async with far.cache(tmp_path, HASTY) as cache, trio.open_nursery() as nursery:
        with trio.CancelScope() as down:
            async with far.up():
                bringing = trio.Event()
                here = []

                async def bring():
                    here.append(await cache.bring(weights))
                    bringing.set()

                nursery.start_soon(bring)
                await trio.sleep_forever()
        far.replay.peers = ()
        assert not bringing.is_set()
        async with far.up():  # the learner is back, at another port
            await bringing.wait()
    manifest.verify(Path(here[0].path), weights.digest)
    parts = [offset for offset in asked if offset > 0]
    again = len(parts) - len(set(parts))
    # What was cut off in the middle of a tensor is fetched again with that tensor; no other is.
    largest = max(end - start for start, end in manifest.read_spans(Path(here[0].path) / manifest.PARAMETERS).values())
    assert again <= 2 + largest // draft.PART_BYTES + 1 < len(set(parts)) / 1.5


async def test_weights_that_a_slow_link_is_fetching_are_kept_through_publications(far, tmp_path, monkeypatch):
    weights = far.publish()
    asked, call = 0, Client.call

    async def overtaken(self, request, deadline_s=None):
        nonlocal asked
        asked += isinstance(request, GetWeights)
        if asked == 15:
            for _ in range(learner.KEPT + 1):
                newest = await trio.to_thread.run_sync(far.publish)  # meanwhile the link's pulses go on
            learner.prune(far.root, learner.list_spare(far.root, frozenset()), alone)
            assert len(list(far.root.iterdir())) == learner.KEPT + 1
            assert (far.root / newest.digest).is_dir()
        return await call(self, request, deadline_s)

    monkeypatch.setattr(Client, "call", overtaken)
    async with far.up(), far.cache(tmp_path) as cache:
        here = await cache.bring(weights)
        manifest.verify(Path(here.path), weights.digest)
        while (far.root / weights.digest).exists():  # until the goodbye has arrived
            await trio.sleep(0.01)
            learner.prune(far.root, learner.list_spare(far.root, frozenset()), alone)


async def test_in_a_run_that_was_moved_weights_are_found_by_their_digest(far, tmp_path):
    """The path is that of where the run lay when they were published."""
    weights = far.publish()
    async with far.up(), far.cache(far.root.parent) as cache:
        here = await cache.bring(weights)
    assert (here.path, cache.fetched_bytes) == (str(far.root / weights.digest), 0)


async def test_a_draft_of_a_killed_engine_is_gone_on_with(far, tmp_path):
    weights = far.publish()
    left_over = tmp_path / "fetched" / f".draft-{weights.digest}"
    left_over.mkdir(parents=True)
    whole = (far.root / weights.digest / manifest.PARAMETERS).read_bytes()
    places = manifest.read_spans(far.root / weights.digest / manifest.PARAMETERS)
    start, end = places["model.embed_tokens.weight"]
    (left_over / manifest.PARAMETERS).write_bytes(whole[:start] + bytes(end - start) + whole[end:])
    async with far.up(), far.cache(tmp_path) as cache:
        here = await cache.bring(weights)
        manifest.verify(Path(here.path), weights.digest)
        assert cache.fetched_bytes == small(here) + end - start


async def test_only_tensors_that_changed_are_fetched_and_old_copies_are_collected(far, tmp_path):
    first = far.publish()
    async with far.up(), far.cache(tmp_path) as cache:
        await cache.bring(first)
        before = cache.fetched_bytes
        second = far.publish("layers.1.mlp.up_proj")
        here = await cache.bring(second)
        manifest.verify(Path(here.path), second.digest)
        start, end = manifest.read_spans(Path(here.path) / manifest.PARAMETERS)["model.layers.1.mlp.up_proj.weight"]
        parts = cache.fetched_bytes - before
        header = min(start for start, _ in manifest.read_spans(Path(here.path) / manifest.PARAMETERS).values())
        assert parts == small(here) + header + end - start < size(far, second) / 2
        (tmp_path / "fetched" / ".draft-old").mkdir()
        third = far.publish()
        await cache.bring(third)
    kept = {path.name for path in (tmp_path / "fetched").iterdir()}
    assert kept == {"lock", second.digest, third.digest}


async def test_a_clock_that_is_set_back_costs_no_copy_that_was_just_fetched(far, tmp_path):
    async with far.up(), far.cache(tmp_path) as cache:
        for _ in range(fetch.KEPT):
            os.utime((await cache.bring(far.publish())).path, (1e10, 1e10))
        here = await cache.bring(far.publish())
    copies = list((tmp_path / "fetched").glob(32 * "[0-9a-f]"))
    assert len(copies) == fetch.KEPT
    assert Path(here.path) in copies


async def test_a_damaged_copy_is_fetched_anew_and_nothing_is_taken_from_it(far, tmp_path):
    """A machine that loses power may leave one; an engine that starts again must not find it again."""
    first = far.publish()
    async with far.up(), far.cache(tmp_path) as cache:
        copy = Path((await cache.bring(first)).path)
        damage(copy / manifest.PARAMETERS)
        second = far.publish("layers.1.mlp.up_proj")
        manifest.verify(Path((await cache.bring(second)).path), second.digest)
        (copy / manifest.MANIFEST).write_bytes(b"")
        os.utime(copy)
        third = far.publish("layers.1.mlp.up_proj")
        newest = Path((await cache.bring(third)).path)
        damage(newest / manifest.PARAMETERS)
    async with far.up(), far.cache(tmp_path) as restarted:
        manifest.verify(Path((await restarted.bring(third)).path), third.digest)


async def test_a_copy_that_another_engine_is_loading_is_kept(far, tmp_path):
    def copies():
        return {path.name for path in (tmp_path / "fetched").glob(32 * "[0-9a-f]")}

    async with far.up(), far.cache(tmp_path) as cache:
        first = await cache.bring(far.publish())
        with disk.hold(Path(first.path) / manifest.PARAMETERS):
            later = [far.publish() for _ in range(fetch.KEPT)]
            for weights in later:
                await cache.bring(weights)
            assert copies() == {first.digest, *(weights.digest for weights in later)}
        await cache.bring(later[-1])
        assert copies() == {weights.digest for weights in later}


@pytest.mark.parametrize("left", [b"", save({"x": torch.zeros(2)})], ids=["empty", "other"])
async def test_a_damaged_draft_is_in_the_way_only_once(far, tmp_path, left):
    """The engine that finds it ends, and is started again."""
    weights = far.publish()
    left_over = tmp_path / "fetched" / f".draft-{weights.digest}"
    left_over.mkdir(parents=True)
    (left_over / manifest.PARAMETERS).write_bytes(left)
    async with far.up(), far.cache(tmp_path) as cache:
        with pytest.raises(WeightsError):
            await cache.bring(weights)
        manifest.verify(Path((await cache.bring(weights)).path), weights.digest)


def damage(file):
    """Change its last byte, which is of a tensor that never changes."""
    with file.open("r+b") as opened:
        opened.seek(-1, 2)
        byte = opened.read(1)
        opened.seek(-1, 2)
        opened.write(bytes([byte[0] ^ 1]))


async def test_two_engines_of_a_host_fetch_once(far, tmp_path):
    weights = far.publish()
    paths = []

    async def bring(cache):
        paths.append((await cache.bring(weights)).path)

    async with far.up(), far.cache(tmp_path) as one, far.cache(tmp_path) as other, trio.open_nursery() as nursery:
        nursery.start_soon(bring, one)
        nursery.start_soon(bring, other)
    assert paths[0] == paths[1]
    assert 0 in (one.fetched_bytes, other.fetched_bytes)


async def test_weights_that_the_learner_has_retired_are_passed_over(far, tmp_path):
    far.publish()
    async with far.up(), far.cache(tmp_path) as cache:
        assert await cache.bring(Weights(9, 9, 32 * "0", "/gone")) is None
    assert os.listdir(tmp_path / "fetched") == ["lock"]


async def test_parameters_that_are_not_those_of_the_digest_are_no_copy(far, tmp_path):
    weights = far.publish()
    file = far.root / weights.digest / manifest.PARAMETERS
    file.write_bytes(file.read_bytes()[:-1] + b"\x01")
    async with far.up(), far.cache(tmp_path) as cache:
        with pytest.raises(WeightsError, match="its digest is not"):
            await cache.bring(weights)
    assert not (tmp_path / "fetched" / weights.digest).exists()


def test_a_learner_serves_published_weights_and_nothing_else(far, tmp_path):
    weights = far.publish()
    (far.root.parent / "secret").mkdir()
    (far.root.parent / "secret" / "config.json").write_text("{}")

    def ask(named, file, offset=0, count=8):
        request = GetWeights(named, file, offset, count)
        return check_request(request) or read_part(far.root / named, request, 6)

    found = ask(weights.digest, manifest.PARAMETERS)
    assert (len(found.data), found.size) == (6, size(far, weights)), "no more than the service sends at once"
    for beyond in (size(far, weights), 1 << 62, (1 << 64) - 1):
        assert ask(weights.digest, manifest.PARAMETERS, beyond).data == b""
    for asked in (
        ("../secret", "config.json"), (weights.digest, "../../secret/config.json"), (weights.digest, "tokenizer.json"),
        (32 * "0", "config.json"), (weights.digest, "config.json", -1), (weights.digest, "config.json", 0, 0),
    ):  # fmt: skip
        assert isinstance(ask(*asked), Refused), asked


async def met(*caches):
    """Wait until each host has heard of all."""
    for cache in caches:
        while len({peer.address for peer in cache._replay.pulse.peers}) <= len(caches):
            await cache._replay.wait_pulse()


@pytest.mark.parametrize("hosts", ["ab", "abcd"])
async def test_hosts_that_begin_together_take_little_more_than_one_copy_from_the_learner(
    far, tmp_path, monkeypatch, hosts
):
    monkeypatch.setattr(draft, "PART_BYTES", 512)
    weights = far.publish()
    async with far.up(), AsyncExitStack() as stack:
        caches = [await stack.enter_async_context(far.host(tmp_path / name, name)) for name in hosts]
        await met(*caches)
        async with trio.open_nursery() as nursery:
            for cache in caches:
                nursery.start_soon(cache.bring, weights)
    for name in hosts:
        manifest.verify(tmp_path / name / "fetched" / weights.digest, weights.digest)
    each = small(Weights(1, 1, "", str(tmp_path / "a/fetched" / weights.digest)))
    sent = sum(cache.fetched_bytes - cache.passed_bytes - each for cache in caches)
    given = sum(cache.passed_bytes for cache in caches)
    assert sent < 1.25 * size(far, weights)
    assert given > (len(hosts) - 1.25) * size(far, weights)


async def test_a_part_that_another_host_has_damaged_is_fetched_anew(far, tmp_path):
    weights = far.publish()
    async with far.up(), far.host(tmp_path / "a", "a") as one, far.host(tmp_path / "b", "b") as other:
        await met(one, other)
        damage(Path((await one.bring(weights)).path) / manifest.PARAMETERS)
        here = await other.bring(weights)
        manifest.verify(Path(here.path), weights.digest)
        assert other.passed_bytes > size(far, weights) / 2
        assert other.fetched_bytes > size(far, weights)


@asynccontextmanager
async def bad_engine(far, answer):
    """An engine that answers each request for a part with what `answer` makes of the request and the true part."""
    asked = []

    async def serve_parts(server):
        async with trio.open_nursery() as nursery:
            while True:
                nursery.start_soon(serve_part, server, await server.receive())

    async def serve_part(server, incoming):
        request = incoming.message
        asked.append(request)
        found = await answer(len(asked), read_part(far.root / request.digest, request, 1 << 20))
        await server.reply(incoming, found)

    async with serve("tcp://127.0.0.1:0", digest=compute_digest(CONFIG), bus=CONFIG.bus) as server:
        far.replay.peers += (Peer("engine", "bad", server.address),)
        async with run_in_background(partial(serve_parts, server)):
            yield asked


async def lies(_, found):
    return WeightsPart(b"", found.size)


async def says_that_the_file_is_larger(_, found):
    return WeightsPart(b"", found.size, (1 << 20) * b"\xff")


async def answers_once(count, found):
    if count > 1:
        await trio.sleep_forever()
    return found


async def gives_a_byte_at_a_time(_, found):
    return WeightsPart(found.data[:1], found.size)


async def refuses(_, found):
    return Refused("not here")


@pytest.mark.parametrize("answer", [lies, says_that_the_file_is_larger, answers_once, gives_a_byte_at_a_time, refuses])
async def test_an_engine_that_gives_nothing_holds_no_fetch_up(far, tmp_path, monkeypatch, answer):
    monkeypatch.setattr(swarm, "PATIENCE_S", 0.3)
    weights = far.publish()
    async with far.up(), bad_engine(far, answer) as asked, far.cache(tmp_path) as cache:
        here = await cache.bring(weights)
        manifest.verify(Path(here.path), weights.digest)
        assert asked
        assert cache.passed_bytes < size(far, weights) / 10
        if answer in (lies, answers_once):
            assert len(asked) <= 1 + swarm.AT_ONCE, "it is asked for nothing more"


async def test_the_learner_stands_in_for_an_engine_that_has_everything_and_is_slow(far, tmp_path, monkeypatch):
    monkeypatch.setattr(swarm, "PATIENCE_S", 0.3)
    monkeypatch.setattr(draft, "PART_BYTES", 512)

    async def slow(count, found):
        await trio.sleep(0.2 if count > swarm.AT_ONCE else 0)
        return found

    weights = far.publish()
    async with far.up(), bad_engine(far, slow), far.cache(tmp_path) as cache:
        here = await cache.bring(weights)
        manifest.verify(Path(here.path), weights.digest)
        assert 0 < cache.passed_bytes < size(far, weights) / 4


async def test_a_host_that_comes_late_takes_its_copy_from_the_others(far, tmp_path, monkeypatch):
    monkeypatch.setattr(draft, "PART_BYTES", 512)
    weights = far.publish()
    async with far.up(), far.host(tmp_path / "a", "a") as one, far.host(tmp_path / "b", "b") as other:
        await met(one, other)
        await one.bring(weights)
        await other.bring(weights)
        assert other.passed_bytes > 0.9 * size(far, weights)


async def test_a_folder_of_the_learner_is_read_only_once_it_is_held(far, tmp_path):
    weights = far.publish()
    seen = Weights(1, 1, weights.digest, str(far.root / weights.digest))
    async with far.cache(tmp_path) as cache:
        assert await cache.bring(seen) == seen
        newer = far.publish()
        await cache.bring(Weights(2, 2, newer.digest, str(far.root / newer.digest)))
        assert far.replay.held == (weights.digest, newer.digest), "the older one may still be loaded"
        cache.served(2)
        far.replay.held = ()
        await cache.hold_again()
        assert far.replay.held == (newer.digest,)
        far.replay.retired = weights.digest
        assert await cache.bring(seen) is None
