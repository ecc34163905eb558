"""A play as the model reads it, turn by turn: with its earlier thoughts, or without them as its template has it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from spade.codec import unpack_ids
from spade.tokens.tokenizer import Contents, Message, Tokenizer


class Reading(NamedTuple):
    """The tokens before a turn: the context is cut back to its first `kept` tokens, and `ids` are read behind them."""

    kept: int
    ids: list[int]

    @property
    def tokens(self) -> int:
        """Of the turn's whole prompt."""
        return self.kept + len(self.ids)


class Dialogue(Protocol):
    """One play. `read` and `said` are called in turn."""

    def read(self, messages: Sequence[Message], context: bytes, most: int) -> Reading:
        """The next turn, after `messages` and behind `context` (little-endian int32); over `most` if it does not fit.

        Its ids are then not all. Raises RunError where the template refuses the conversation.
        """
        ...

    def said(self, ids: Sequence[int]) -> None:
        """Tokens that the model sampled in answer."""
        ...


def dialogues(tokenizer: Tokenizer, thoughts: Literal["keep", "strip"]) -> Callable[[], Dialogue]:
    """Begins a play. Raises RunError where thoughts are to be stripped, and the checkpoint has none or keeps them."""
    if thoughts == "keep":
        return partial(Keeping, tokenizer)
    return partial(Stripping, tokenizer, tokenizer.thought_ids())


class Keeping:
    """All that was said stays in the context, token by token."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._said: Sequence[int] | None = None

    def read(self, messages: Sequence[Message], context: bytes, most: int) -> Reading:
        """See Dialogue; after an answer there is one message."""
        if self._said is None:
            return Reading(0, self._tokenizer.prompt_ids(messages, most))
        kept = len(context) // 4
        [observation] = messages
        return Reading(kept, self._tokenizer.turn_ids(self._said, observation, most - kept))

    def said(self, ids: Sequence[int]) -> None:
        """See Dialogue."""
        self._said = ids


class Stripping:
    """Each turn reads the whole conversation as the template has it by then, of earlier answers what is no thought.

    What it has in common with the context stays there, so that an answer without a thought stays as it was sampled.
    """

    def __init__(self, tokenizer: Tokenizer, marks: tuple[int, int]) -> None:
        """`marks`: the tokens that begin and end a thought."""
        self._tokenizer = tokenizer
        self._begin, self._end = marks
        self._roles: list[str] = []
        self._contents = Contents()
        self._opened = False  # the prompt itself begins the thought of the next answer

    def read(self, messages: Sequence[Message], context: bytes, most: int) -> Reading:
        """See Dialogue."""
        self._roles += [message.role for message in messages]
        self._contents.texts.extend(message.content for message in messages)
        ids = self._tokenizer.history_ids(self._roles, self._contents, most)
        prompt = np.asarray(ids, dtype=np.int32)
        marks = prompt[(prompt == self._begin) | (prompt == self._end)]
        self._opened = marks[-1:].tolist() == [self._begin]
        # A turn reads one token at least: what is sampled follows it.
        kept = min(_common(unpack_ids(context), prompt), len(ids) - 1)
        return Reading(kept, ids[kept:])

    def said(self, ids: Sequence[int]) -> None:
        """See Dialogue."""
        self._contents.answers[len(self._roles)] = self._shown(ids)
        self._contents.texts.append("")
        self._roles.append("assistant")

    def _shown(self, ids: Sequence[int]) -> Sequence[int]:
        """Of an answer, what stands behind its last thought and the newlines there; nothing where that did not end."""
        marks = [at for at, id in enumerate(ids) if id in (self._begin, self._end)]
        if not marks:
            return [] if self._opened else ids
        if ids[marks[-1]] == self._begin:
            return []
        first = marks[-1] + 1
        while first < len(ids) and self._tokenizer.is_newlines(ids[first]):
            first += 1
        return ids[first:]


def _common(context: NDArray[np.int32], prompt: NDArray[np.int32]) -> int:
    """Number of tokens that both begin with."""
    width = min(len(context), len(prompt))
    differs = context[:width] != prompt[:width]
    return int(differs.argmax()) if differs.any() else width
