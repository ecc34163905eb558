"""Services over the real bus that speak the protocol with fixed work and fixed words, for actors to be tested on."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import tokenizers
import trio

from actors import env_runner
from spade import config
from spade.codec import pack_floats, pack_ids, program_digest, unpack_ids
from spade.process import Launch
from spade.protocol import (
    PROTOCOL_VERSION,
    Audited,
    AuditJob,
    Audits,
    DesignJob,
    Designs,
    Done,
    EndedPlay,
    Evaluated,
    Evaluation,
    Generate,
    Generated,
    GetProgram,
    Hello,
    LeaseAudit,
    LeaseDesigns,
    LeasePlays,
    Peer,
    PlayLease,
    Plays,
    Program,
    Pulse,
    Ready,
    Refused,
    RejectCandidate,
    ReleaseDesign,
    ReleasePlay,
    Request,
    Response,
    Role,
    Serving,
    SubmitEnvironment,
    SubmitPlays,
    Weights,
)
from spade.tokens import Tokenizer
from spade.transport import Incoming, Server, connect, serve

VERSION = 3
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_tokenizer(folder: Path) -> Tokenizer:
    """A checkpoint folder without weights, one token a byte, and its tokenizer."""
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=258,
        special_tokens=["<|im_start|>", "<|im_end|>"],
        initial_alphabet=letters,
        show_progress=False,
    )
    bpe.train_from_iterator([], trainer)
    bpe.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text("{}")
    settings = {"eos_token": "<|im_end|>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return Tokenizer.load(folder)


class SmallReplay:
    """The replay service's half of the protocol over fixed work. What is given back is leased again.

    `done` holds every EndedPlay, Evaluation, ReleasePlay, SubmitEnvironment, RejectCandidate and ReleaseDesign, in
    order; `together` how many plays each SubmitPlays brought. While it is `forgetful`, no pulse names any service that
    is here, as after a restart before they have said hello again.
    """

    def __init__(
        self, plays: Sequence[PlayLease] = (), jobs: Sequence[DesignJob] = (), programs: Sequence[str] = ()
    ) -> None:
        self.work: list[PlayLease | DesignJob] = [*plays, *jobs]
        self.audits: list[AuditJob] = []
        self.done: list[Request | EndedPlay | Evaluation] = []
        self.together: list[int] = []
        self.fetched: list[str] = []
        self.counts: list[int] = []
        self.peers: tuple[Peer, ...] = ()
        self.forgetful = False
        self.weights: Weights | None = None
        self._given = {job.id: job for job in self.work}
        self._programs = {program_digest(source): Program(source) for source in programs}
        self._changed = trio.Event()

    def change(self) -> None:
        """Wake whoever waits for something to happen."""
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    async def until(self, met: Callable[[], bool]) -> None:
        """Wait for `met` to hold."""
        with trio.fail_after(60):
            while not met():
                await self._changed.wait()

    async def until_done(self, count: int) -> None:
        """Wait until that much is done."""
        await self.until(lambda: len(self.done) >= count)

    async def run(self, server: Server) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                nursery.start_soon(self._answer, server, await server.receive())

    async def _answer(self, server: Server, incoming: Incoming) -> None:
        await server.reply(incoming, await self._response(incoming.message))

    async def _response(self, request: Request) -> Response:
        match request:
            case LeasePlays(count=count, wait_s=wait_s):
                return Plays(await self._lease(PlayLease, count, wait_s))
            case LeaseDesigns(count=count, wait_s=wait_s):
                return Designs(await self._lease(DesignJob, count, wait_s))
            case LeaseAudit(wait_s=wait_s):
                with trio.move_on_after(wait_s):
                    while not self.audits:
                        await self._changed.wait()
                leased, self.audits = self.audits[:1], self.audits[1:]
                return Audits(tuple(leased))
            case Audited():
                self.done.append(request)
                self.change()
                return Done()
            case Serving():
                return Done()
            case GetProgram(program=digest):
                self.fetched.append(digest)
                return self._programs.get(digest) or Refused(f"no active environment has the program {digest!r}")
            case ReleasePlay(id=id, lease=lease) | ReleaseDesign(job=id, lease=lease):
                self.work.append(msgspec.structs.replace(self._given[id], lease=lease + 1))
            case SubmitPlays(plays=plays):
                self.together.append(len(plays))
                self.done.extend(plays)
                self.change()
                return Done()
            case Evaluated(evaluation=evaluation):
                self.done.append(evaluation)
                self.change()
                return Done()
            case SubmitEnvironment() | RejectCandidate():
                pass
            case _:
                return Refused(f"no {type(request).__name__} here")
        self.done.append(request)
        self.change()
        return Done()

    async def _lease(self, kind, count, wait_s):
        self.counts.append(count)
        with trio.move_on_after(wait_s):
            while not any(isinstance(job, kind) for job in self.work):
                await self._changed.wait()
        leased = [job for job in self.work if isinstance(job, kind)][:count]
        self.work = [job for job in self.work if job not in leased]
        return tuple(leased)


@asynccontextmanager
async def small_replay(replay: SmallReplay, settings: config.Config) -> AsyncIterator[Server]:
    """Serve it; whoever says hello with an address is in the next pulse, as with the real one."""

    def pulse() -> Pulse:
        replay.change()  # a heartbeat came
        named = [hello for hello in server.peers.values() if hello.address is not None and not replay.forgetful]
        peers = (Peer(hello.role, hello.name, hello.address) for hello in named)
        return Pulse((*replay.peers, *peers), replay.weights)

    def ready(_: Hello) -> Ready:
        return Ready(pulse().peers, replay.weights)

    digest = config.digest(settings)
    async with (
        serve("tcp://127.0.0.1:0", digest=digest, bus=settings.bus, ready=ready, pulse=pulse) as server,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(replay.run, server)
        yield server
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def service(
    role: Role, name: str, replay: Server, settings: config.Config, answer: Callable[[Request], Response | None]
) -> AsyncIterator[Server]:
    """A service of `role` that `answer`s each request in turn, and leaves those unanswered where that is None."""

    async def run(server: Server) -> None:
        while True:
            incoming = await server.receive()
            response = answer(incoming.message)
            if response is not None:
                await server.reply(incoming, response)

    digest = config.digest(settings)
    async with serve("tcp://127.0.0.1:0", digest=digest, bus=settings.bus) as server:
        hello = Hello(PROTOCOL_VERSION, digest, role, name, 0, server.address)
        async with connect(replay.address, hello, bus=settings.bus), trio.open_nursery() as nursery:
            nursery.start_soon(run, server)
            yield server
            nursery.cancel_scope.cancel()


def says(tokenizer: Tokenizer, say: Callable[[str], str]) -> Callable[[Request], Response]:
    """An engine that answers a prompt's text with `say` of it and ends its turn; each token at log-probability -0.5."""

    def answer(request: Request) -> Response:
        assert isinstance(request, Generate)
        prompt = unpack_ids(request.prompt).tolist()
        ids = [*tokenizer.encode(say(tokenizer.decode(prompt))), *tokenizer.end_ids]
        cut = ids[: request.max_tokens]
        finish = "stop" if len(cut) == len(ids) else "length"
        return Generated(pack_ids(cut), pack_floats([-0.5] * len(cut)), ((VERSION, len(cut)),), finish)

    return answer


@asynccontextmanager
async def process(
    run, role: Role, replay: Server, settings: config.Config, index: int = 0
) -> AsyncIterator[trio.CancelScope]:
    """A real process's body, until the block ends; the scope is what SIGTERM cancels."""
    ready = trio.Event()
    launch = Launch(f"{role}-{index}", role, config="", run="", replay=replay.address, bind="tcp://127.0.0.1:0")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, launch, settings, ready.set)
        with trio.fail_after(60):
            await ready.wait()
        yield nursery.cancel_scope
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def acting(
    actor, role: Role, small: SmallReplay, settings: config.Config, tokenizer: Tokenizer, say: Callable[[str], str]
) -> AsyncIterator[list[Generate]]:
    """An actor between a small replay service, scripted words and the real env-runner; yields what the engine hears."""
    asked: list[Generate] = []
    speak = says(tokenizer, say)

    def answer(request: Request) -> Response:
        assert isinstance(request, Generate)
        asked.append(request)
        return speak(request)

    async with (
        small_replay(small, settings) as replay,
        service("engine", "engine-0", replay, settings, answer),
        process(env_runner.run, "env-runner", replay, settings),
        process(actor.run, role, replay, settings),
    ):
        yield asked
