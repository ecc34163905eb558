"""A voice that sends the prompt as token ids and receives token ids, from our engines or from a server."""

from collections.abc import Collection, Sequence
from functools import partial

import trio

from actors.play.session import Session
from actors.play.voices import TurnSaid
from actors.text.profile import ChatMessage
from actors.text.trajectory import TrajectoryBuilder
from spade.codec import pack_ids, unpack_ids
from spade.evaluations import Sampling
from spade.protocol import Trajectory
from spade.tokens import LONG_TEXT, Tools, TurnPrompt

MIN_TURN_TOKENS = 1_024
"""A turn needs this many free tokens in the context, or `max_tokens` if that is less. Else the play is truncated."""


class TokenVoice:
    """A Voice that reads and samples token ids.

    `context_tokens` is the most tokens of the prompt and the answer of a turn together. `marks` are special tokens that
    stay in the text of an answer.
    """

    def __init__(self, session: Session, sampling: Sampling, context_tokens: int, marks: Collection[str]) -> None:
        self._session = session
        self._sampling = sampling
        self._context_tokens = context_tokens
        self._marks = marks
        self._dialogue = session.dialogue()
        self._builder = TrajectoryBuilder(sampling.temperature)

    @property
    def unfit(self) -> str:
        """See Voice."""
        return f"a first prompt of over {self._most} tokens does not fit play.context_tokens"

    def trajectory(self) -> Trajectory:
        """See Voice."""
        return self._builder.trajectory()

    async def say(self, messages: Sequence[ChatMessage], tools: Tools, seed: int, near: str) -> TurnSaid | None:
        """See Voice."""
        reading = await self._read(messages, tools)
        if reading.tokens > self._most:
            return None
        self._builder.rewind(reading.kept)
        self._builder.read(reading.ids)
        generated = await self._session.generate(
            self._builder.ids,
            min(self._sampling.max_tokens, self._context_tokens - self._builder.tokens),
            self._sampling.temperature,
            seed,
            near,
            top_p=self._sampling.top_p,
            top_k=self._sampling.top_k,
        )
        self._builder.sampled(generated)
        ids = unpack_ids(generated.ids).tolist()
        self._dialogue.said(ids)
        text = self._session.tokenizer.decode(ids, self._marks)
        return TurnSaid(text, pack_ids(list(reading.ids)), len(reading.ids), len(ids), generated.finish)

    async def _read(self, messages: Sequence[ChatMessage], tools: Tools) -> TurnPrompt:
        """Encode the next turn's prompt. Long messages are encoded in a thread, so that the event loop goes on."""
        read = partial(self._dialogue.read, messages, self._builder.ids, self._most, tools)
        length = sum(len(message.content) for message in messages) + len(tools.skeleton)
        return read() if length <= LONG_TEXT else await trio.to_thread.run_sync(read)

    @property
    def _most(self) -> int:
        """Return the length in tokens of the longest prompt that leaves room for the shortest turn."""
        least = min(MIN_TURN_TOKENS, self._sampling.max_tokens)
        return self._context_tokens - least
