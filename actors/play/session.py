"""The session of an actor that samples: its connections, its profile, its tokenizer and its engines."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from actors.links import connected
from actors.links.connected import ActorConnections
from actors.links.pool import Pool
from actors.play.domains import ChatFormats, load_chat_formats, load_profile
from actors.text.profile import ChatMessage, Profile
from spade.codec import pack_ids, unpack_ids
from spade.config import Config
from spade.errors import BusError
from spade.policy import model_folder
from spade.processes.entry import Launch
from spade.protocol import Generate, Generated, Overdue, Role
from spade.tokens import Dialogue, Tokenizer, make_dialogues


class OverdueError(BusError):
    """An engine did not finish a request in time."""


class Reply(NamedTuple):
    """The model's answer to a question."""

    text: str
    cut: bool
    """True if the answer was cut off because it reached the largest allowed number of tokens."""


@dataclass(frozen=True)
class Session(ActorConnections):
    """The connections of an actor that samples, and what it needs to prompt its model and to read the answers."""

    sampler: Role
    """The role of the services that sample for this actor: engine or endpoint."""
    tokenizer: Tokenizer
    dialogue: Callable[[], Dialogue]
    """Begins the dialogue of a play."""
    chat_format: ChatFormats
    """Makes the chat format of a play."""

    @property
    def profile(self) -> Profile:
        """Return the designer's prompts. Raises ConfigError if the domain lacks prompts for the model."""
        return load_profile(self.config)

    @property
    def engines(self) -> Pool:
        """Return the services that sample for this actor."""
        return self.pools[self.sampler]

    async def generate(
        self,
        prompt: bytes,
        max_tokens: int,
        temperature: float,
        seed: int,
        near: str = "",
        *,
        top_p: float = 1.0,
        top_k: int = 0,
    ) -> Generated:
        """Sample a continuation at the engine with the least to do. If that engine is lost, sample at another.

        Prompts with the same beginning should have the same `near`. They then usually go to one engine, which caches
        their keys. Raises OverdueError if this takes longer than engine.request_deadline_s, BusError if no engine
        answers.
        """
        config = self.config
        deadline_s = config.engine.request_deadline_s
        request = Generate(prompt, max_tokens, temperature, seed, top_p, top_k, deadline_s=deadline_s)
        # The engine's deadline is shorter than ours, so that the engine stops sampling and tells the reason.
        reply = await self.engines.call(request, request.deadline_s + config.bus.call_deadline_s, near)
        if isinstance(reply, Overdue):
            raise OverdueError(
                f"an engine had no answer within engine.request_deadline_s = {request.deadline_s:g} s: "
                f"{reply.waited_s:.1f} s in its queue, {reply.sampled_s:.1f} s sampling; add engines or raise the limit"
            )
        return reply

    async def ask(self, messages: Sequence[ChatMessage], most: int, temperature: float, seed: int) -> Reply | None:
        """Ask the model a question. The answer is not trained on.

        Returns an answer of at most `most` tokens, or None if the question leaves too little room in the context.
        Raises BusError as `generate` does.
        """
        room = self.config.engine.context_tokens - most
        prompt = self.tokenizer.prompt_ids(messages, room)
        if len(prompt) > room:
            return None
        generated = await self.generate(pack_ids(prompt), most, temperature, seed)
        return Reply(self.tokenizer.decode(unpack_ids(generated.ids).tolist()), generated.finish == "length")


async def attend(
    launch: Launch,
    config: Config,
    lease_s: float,
    ready: Callable[[], None],
    work: Callable[[Session], Awaitable[None]],
    corpus: str = "",
) -> None:
    """Connect, report ready, and work until the process is told to leave.

    The replay service may be away for `lease_s`. `corpus` is the digest of the documents to design from.
    """
    tokenizer = Tokenizer.load(model_folder.resolve(config.model.path), thinking=config.model.thinking)
    dialogue = make_dialogues(tokenizer, config.play.thoughts)
    chat_format = load_chat_formats(config, tokenizer)
    sampler: Role = "endpoint" if config.endpoint.serves(launch.role) else "engine"

    async def speak(link: ActorConnections) -> None:
        await work(
            Session(
                link.config,
                link.replay,
                link.pools,
                link.outbox,
                link.retiring,
                sampler,
                tokenizer,
                dialogue,
                chat_format,
            )
        )

    await connected.attend(launch, config, (sampler, "env-runner"), lease_s, ready, speak, corpus)
