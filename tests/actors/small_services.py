"""Services over the real bus that speak the protocol with fixed work and fixed words, for actors to be tested on."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import tokenizers
import trio

from actors.environments import runner as env_runner
from replay.ledger.environment_memory import find_most_similar, make_shingles
from spade import config, protocol
from spade.codec import compute_program_digest, pack_floats, pack_ids, unpack_ids
from spade.processes.entry import Launch
from spade.tokens import Tokenizer
from spade.transport import IncomingRequest, Server, connect, serve
from tests.conftest import TEMPLATE
from tests.peers import hello

VERSION = 3


def byte_tokenizer(folder: Path) -> Tokenizer:
    """A checkpoint folder without weights, one token a byte, and its tokenizer."""
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    special = ["<|im_start|>", "<|im_end|>"]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=258, special_tokens=special, initial_alphabet=letters, show_progress=False
    )
    bpe.train_from_iterator([], trainer)
    bpe.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text("{}")
    settings = {"eos_token": "<|im_end|>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return Tokenizer.load(folder)


def actor_settings(checkpoint: Path, *overrides: str) -> config.Config:
    """The nano recipe for the tokenizer in a folder, with quick heartbeats and these overrides."""
    return config.load(
        "nano", (f"model.path={str(checkpoint)!r}", "bus.heartbeat_s=0.1", "bus.silence_s=3.0", *overrides)
    )


class SmallReplay:
    """The replay service's half of the protocol over fixed work. What is given back is leased again.

    `done` holds everything handed in or given back that counted, in order: EndedPlay, Evaluation, Diversity, Audited,
    and requests of designs and releases; `together` how many plays each SubmitPlays brought. `newest` are the newest
    programs. While it is `forgetful`, no pulse names any service that is here, as after a restart before they have said
    hello again. `held` are the weights that an engine holds, `retired` those that none can.
    """

    def __init__(
        self,
        plays: Sequence[protocol.PlayLease] = (),
        jobs: Sequence[protocol.DesignJob] = (),
        programs: Sequence[str] = (),
    ) -> None:
        self.work: list[protocol.PlayLease | protocol.DesignJob] = [*plays, *jobs]
        self.audits: list[protocol.AuditJob] = []
        self.done: list[protocol.AnyRequest | protocol.EndedPlay | protocol.Evaluation | protocol.Diversity] = []
        self.together: list[int] = []
        self.fetched: list[str] = []
        self.newest: list[str] = []
        self.earlier: dict[str, str] = {}
        self.counts: list[int] = []
        self.peers: tuple[protocol.Peer, ...] = ()
        self.forgetful = False
        self.weights: protocol.Weights | None = None
        self.server: Server | None = None
        self.held: tuple[str, ...] = ()
        self.retired = ""
        self._leased: dict[str, protocol.PlayLease | protocol.DesignJob] = {}  # by id, under the newest lease
        self._over: set[object] = set()  # ids, and attempts
        self._programs = {compute_program_digest(source): protocol.Program(source) for source in programs}
        self._changed = trio.Event()

    def change(self) -> None:
        """Wake all that wait for something to happen."""
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def changes(self) -> None:
        """Wait for something to happen."""
        await self._changed.wait()

    async def until(self, met: Callable[[], bool]) -> None:
        """Wait for `met` to hold."""
        while not met():
            await self._changed.wait()

    async def until_done(self, count: int) -> None:
        """Wait until that much is done."""
        await self.until(lambda: len(self.done) >= count)

    async def announce(self, weights: protocol.Weights) -> None:
        """Publish weights to all that are here."""
        self.weights = weights
        for peer in list(self.server.peers):
            await self.server.push(peer, weights)

    async def run(self, server: Server) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                nursery.start_soon(self._answer, server, await server.receive())

    async def _answer(self, server: Server, incoming: IncomingRequest) -> None:
        await server.reply(incoming, await self._response(incoming.message))

    async def _response(self, request: protocol.AnyRequest) -> protocol.Response:
        match request:
            case protocol.LeasePlays(count=count) | protocol.LeaseDesigns(count=count) if count < 1:
                return protocol.Refused(f"count must be at least 1, is {count}")
            case (
                protocol.LeasePlays(wait_s=wait_s)
                | protocol.LeaseDesigns(wait_s=wait_s)
                | protocol.LeaseAudit(wait_s=wait_s)
            ) if not wait_s >= 0:
                return protocol.Refused(f"wait_s must be 0 to 3600 s, is {wait_s}")
            case protocol.LeasePlays(count=count, wait_s=wait_s):
                return protocol.Plays(await self._lease(protocol.PlayLease, count, wait_s))
            case protocol.LeaseDesigns(count=count, wait_s=wait_s):
                return protocol.Designs(await self._lease(protocol.DesignJob, count, wait_s))
            case protocol.LeaseAudit(wait_s=wait_s):
                with trio.move_on_after(wait_s):
                    await self.until(lambda: bool(self.audits))
                leased, self.audits = self.audits[:1], self.audits[1:]
                return protocol.Audits(tuple(leased))
            case protocol.GetProgram(program=digest):
                self.fetched.append(digest)
                refused = protocol.Refused(f"no active environment has the program {digest!r}")
                return self._programs.get(digest, refused)
            case protocol.CompareProgram(source=source):
                earlier = {environment: make_shingles(each) for environment, each in self.earlier.items()}
                return protocol.Similarity(*(find_most_similar(make_shingles(source), earlier) or ()))
            case protocol.Serving():
                return protocol.Done()
            case protocol.HoldWeights(digests=digests) if self.retired in digests:
                return protocol.Refused(f"weights {self.retired} are retired; newer ones have been published")
            case protocol.HoldWeights(digests=digests):
                self.held = digests
                return protocol.Done()
            case protocol.ReleasePlay(id=id, lease=lease) | protocol.ReleaseDesign(job=id, lease=lease):
                return self._give_back(request, id, lease)
            case protocol.SubmitPlays(plays=plays):
                self.together.append(len(plays))
                answers = [self._hand_in(play, play.id, play.lease) for play in plays]
                return next((answer for answer in answers if answer != protocol.Done()), protocol.Done())
            case protocol.SubmitEnvironment(job=id, lease=lease):
                return self._hand_in(request, id, lease)
            case protocol.RejectCandidate(job=id, lease=lease, attempt=attempt):
                return self._hand_in(request, id, lease, attempt)
            case protocol.Evaluated(evaluation=evaluation):
                return self._note(evaluation)
            case protocol.Audited():
                return self._note(request)
            case protocol.GetNewestPrograms(count=count):
                self.counts.append(count)
                self.change()
                return protocol.NewestPrograms(tuple(self.newest[-count:]))
            case protocol.MeasuredDiversity(diversity=diversity):
                return self._note(diversity)
        return protocol.Refused(f"no {type(request).__name__} here")

    async def _lease(self, kind: type, count: int, wait_s: float) -> tuple[Any, ...]:
        self.counts.append(count)
        with trio.move_on_after(wait_s):
            await self.until(lambda: any(isinstance(job, kind) for job in self.work))
        leased = [job for job in self.work if isinstance(job, kind)][:count]
        self.work = [job for job in self.work if job not in leased]
        self._leased |= {job.id: job for job in leased}
        return tuple(leased)

    def _give_back(self, request: protocol.AnyRequest, id: str, lease: int) -> protocol.Response:
        """Open it again under the next lease; nothing where the lease is not the newest."""
        if id in self._over or id not in self._leased or self._leased[id].lease != lease:
            return protocol.Done()
        given = self._leased.pop(id)
        self.work.append(msgspec.structs.replace(given, lease=lease + 1, sampler=given.sampler + 1_000))
        return self._note(request)

    def _hand_in(
        self, handed_in: protocol.AnyRequest | protocol.EndedPlay, id: str, lease: int, attempt: int | None = None
    ) -> protocol.Response:
        """Note it, once."""
        known = self._leased.get(id)
        if known is None and id not in {job.id for job in self.work}:
            return protocol.Done()
        if known is None or not 0 <= lease <= known.lease:
            kind = "play" if isinstance(handed_in, protocol.EndedPlay) else "job"
            return protocol.Refused(f"{kind} {id}: its lease {lease} was never given")
        if {id, key := (id, lease, attempt)} & self._over:
            return protocol.Done()
        self._over.add(id if attempt is None else key)
        return self._note(handed_in)

    def _note(
        self, done: protocol.AnyRequest | protocol.EndedPlay | protocol.Evaluation | protocol.Diversity
    ) -> protocol.Response:
        self.done.append(done)
        self.change()
        return protocol.Done()


@asynccontextmanager
async def small_replay(replay: SmallReplay, settings: config.Config) -> AsyncIterator[Server]:
    """Serve it; whoever says hello with an address is in the next pulse, as with the real one."""

    def pulse() -> protocol.Pulse:
        replay.change()  # a heartbeat came
        named = [hello for hello in server.peers.values() if hello.address is not None and not replay.forgetful]
        peers = (protocol.Peer(hello.role, hello.name, hello.address) for hello in named)
        return protocol.Pulse((*replay.peers, *peers), replay.weights)

    def ready(_: protocol.Hello) -> protocol.Ready:
        return protocol.Ready(pulse().peers, replay.weights)

    digest = config.compute_digest(settings)
    async with (
        serve("tcp://127.0.0.1:0", digest=digest, bus=settings.bus, ready=ready, pulse=pulse) as server,
        trio.open_nursery() as nursery,
    ):
        replay.server = server
        nursery.start_soon(replay.run, server)
        yield server
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def service(
    role: protocol.Role,
    name: str,
    replay: Server,
    settings: config.Config,
    answer: Callable[[protocol.AnyRequest], protocol.Response | None],
) -> AsyncIterator[Server]:
    """A service of `role` that `answer`s each request in turn, and leaves those unanswered where that is None."""

    async def run(server: Server) -> None:
        while True:
            incoming = await server.receive()
            response = answer(incoming.message)
            if response is not None:
                await server.reply(incoming, response)

    async with serve("tcp://127.0.0.1:0", digest=config.compute_digest(settings), bus=settings.bus) as server:
        greeting = hello(settings, role, name, server.address)
        async with connect(replay.address, greeting, bus=settings.bus), trio.open_nursery() as nursery:
            nursery.start_soon(run, server)
            yield server
            nursery.cancel_scope.cancel()


def says(tokenizer: Tokenizer, say: Callable[[str], str]) -> Callable[[protocol.AnyRequest], protocol.Response]:
    """An engine that answers a prompt's text with `say` of it and ends its turn; each token at log-probability -0.5."""

    def answer(request: protocol.AnyRequest) -> protocol.Response:
        assert isinstance(request, protocol.Generate)
        prompt = unpack_ids(request.prompt).tolist()
        ids = [*tokenizer.encode(say(tokenizer.decode(prompt))), *tokenizer.end_ids]
        cut = ids[: request.max_tokens]
        finish = "stop" if len(cut) == len(ids) else "length"
        return protocol.Generated(pack_ids(cut), pack_floats([-0.5] * len(cut)), ((VERSION, len(cut)),), finish)

    return answer


@asynccontextmanager
async def process(
    run, role: protocol.Role, replay: Server, settings: config.Config, index: int = 0
) -> AsyncIterator[trio.CancelScope]:
    """A real process's body, until the block ends; the scope is what SIGTERM cancels."""
    ready = trio.Event()
    launch = Launch(f"{role}-{index}", role, config="", run="", replay=replay.address, bind="tcp://127.0.0.1:0")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, launch, settings, ready.set)
        await ready.wait()
        yield nursery.cancel_scope
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def acting(
    actor,
    role: protocol.Role,
    small: SmallReplay,
    settings: config.Config,
    tokenizer: Tokenizer,
    say: Callable[[str], str],
    runner: Callable[[protocol.AnyRequest], protocol.Response | None] | None = None,
) -> AsyncIterator[list[protocol.Generate]]:
    """An actor between a small replay service, scripted words and the env-runner; yields what the engine hears.

    `runner` answers in the real env-runner's place.
    """
    asked: list[protocol.Generate] = []
    speak = says(tokenizer, say)

    def answer(request: protocol.AnyRequest) -> protocol.Response:
        assert isinstance(request, protocol.Generate)
        asked.append(request)
        return speak(request)

    async with (
        small_replay(small, settings) as replay,
        service("engine", "engine-0", replay, settings, answer),
        process(env_runner.run, "env-runner", replay, settings)
        if runner is None
        else service("env-runner", "runner-0", replay, settings, runner),
        process(actor.run, role, replay, settings),
    ):
        yield asked
