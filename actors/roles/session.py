"""The session of an actor that samples: its connections, and the profile, tokenizer and engines that it speaks by."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from actors.roles import connected
from actors.roles.connected import Connected
from actors.roles.domains import Talks, load_profile, load_talks
from actors.roles.pool import Pool
from actors.text.profile import ChatMessage, Profile
from spade.codec import pack_ids, unpack_ids
from spade.config import Config
from spade.errors import BusError
from spade.policy import model_folder
from spade.processes.entry import Launch
from spade.protocol import Generate, Generated, Overdue, Role
from spade.tokens import Dialogue, Tokenizer, dialogues


class OverdueError(BusError):
    """An engine did not finish a request in time."""


class Reply(NamedTuple):
    """The answer of the model to a question; `cut` at its most tokens."""

    text: str
    cut: bool


@dataclass(frozen=True)
class Session(Connected):
    """The connections of an actor, and how it speaks. `sampler`: the role of its engines.

    `dialogue` and `talk` begin a play.
    """

    sampler: Role
    tokenizer: Tokenizer
    dialogue: Callable[[], Dialogue]
    talk: Talks

    @property
    def profile(self) -> Profile:
        """The designer's prompts. Raises ConfigError where the domain has none for the model."""
        return load_profile(self.config)

    @property
    def engines(self) -> Pool:
        """The services that sample for it."""
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
        """Sample a continuation at the engine with the least to do, at another where that is lost.

        Prompts that begin alike and say the same `near` are sampled at the same one, which has their keys.
        Raises OverdueError where it took longer than engine.request_deadline_s, BusError where no engine gives one.
        """
        config = self.config
        deadline_s = config.engine.request_deadline_s
        request = Generate(prompt, max_tokens, temperature, seed, top_p, top_k, deadline_s=deadline_s)
        # The engine gives up first, so that it samples nothing in vain, and gives the reason.
        reply = await self.engines.call(request, request.deadline_s + config.bus.call_deadline_s, near)
        if isinstance(reply, Overdue):
            raise OverdueError(
                f"an engine had no answer within engine.request_deadline_s = {request.deadline_s:g} s: "
                f"{reply.waited_s:.1f} s in its queue, {reply.sampled_s:.1f} s being sampled; add engines or raise it"
            )
        return reply

    async def ask(self, messages: Sequence[ChatMessage], most: int, temperature: float, seed: int) -> Reply | None:
        """The answer, in at most `most` tokens, to a question that is not trained on; None where it has no room.

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
    """Connect, be ready, and work until told to leave.

    `lease_s` is how long the replay service may be away, `corpus` the digest of the documents to design from.
    """
    tokenizer = Tokenizer.load(model_folder.resolve(config.model.path), thinking=config.model.thinking)
    dialogue = dialogues(tokenizer, config.play.thoughts)
    talk = load_talks(config, tokenizer)
    sampler: Role = "endpoint" if config.endpoint.serves(launch.role) else "engine"

    async def speak(link: Connected) -> None:
        await work(
            Session(
                link.config, link.replay, link.pools, link.outbox, link.retiring, sampler, tokenizer, dialogue, talk
            )
        )

    await connected.attend(launch, config, (sampler, "env-runner"), lease_s, ready, speak, corpus)
