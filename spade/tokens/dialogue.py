"""Build the prompts of a play's turns. Earlier thoughts stay, or are stripped as the chat template does."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from spade.codec import pack_ids, unpack_ids
from spade.tokens.tokenizer import Contents, Message, Tokenizer
from spade.tokens.tools import NO_TOOLS, Tools

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class TurnPrompt(NamedTuple):
    """The tokens before a turn."""

    kept: int
    """The context is cut back to its first `kept` tokens."""

    ids: list[int]
    """Tokens that then follow."""

    @property
    def tokens(self) -> int:
        """Return the number of tokens of the whole prompt."""
        return self.kept + len(self.ids)


class Dialogue(Protocol):
    """The prompts of one play. Call `read` before each answer of the model, and `said` after it."""

    def read(self, messages: Sequence[Message], context: bytes, most: int, tools: Tools = NO_TOOLS) -> TurnPrompt:
        """Return the prompt of the next turn: `messages` after `context` (little-endian int32).

        The first turn may have `tools`. If the prompt has more than `most` tokens, the result may be a part
        of the prompt, but still has more than `most` tokens.

        Raises RunError if the template refuses the conversation, UnreadableError if it refuses these tools.
        """
        ...

    def said(self, ids: Sequence[int]) -> None:
        """Take the tokens that the model sampled as its answer."""
        ...


def make_dialogues(tokenizer: Tokenizer, thoughts: Literal["keep", "strip"]) -> Callable[[], Dialogue]:
    """Return a factory of dialogues.

    Raises RunError for "strip" if the checkpoint does not have thoughts, or keeps them in the context.
    """
    if thoughts == "keep":
        return partial(KeepingDialogue, tokenizer)
    return partial(StrippingDialogue, tokenizer, tokenizer.thought_ids())


class KeepingDialogue:
    """A dialogue that keeps every token in the context."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._said: Sequence[int] | None = None

    def read(self, messages: Sequence[Message], context: bytes, most: int, tools: Tools = NO_TOOLS) -> TurnPrompt:
        """See Dialogue."""
        if self._said is None:
            return TurnPrompt(0, self._tokenizer.prompt_ids(messages, most, tools))
        kept = len(context) // 4
        return TurnPrompt(kept, self._tokenizer.turn_ids(self._said, messages, most - kept))

    def said(self, ids: Sequence[int]) -> None:
        """See Dialogue."""
        self._said = ids


class StrippingDialogue:
    """A dialogue that renders the whole conversation for each turn, without the thoughts of earlier answers.

    The prompt shares its beginning with the context, so that an answer without a thought keeps its sampled tokens.
    """

    def __init__(self, tokenizer: Tokenizer, marks: tuple[int, int]) -> None:
        """Take `marks`, the tokens that begin and end a thought."""
        self._tokenizer = tokenizer
        self._begin, self._end = marks
        self._roles: list[str] = []
        self._contents = Contents()
        self._opened = False  # the prompt itself begins the thought of the next answer

    def read(self, messages: Sequence[Message], context: bytes, most: int, tools: Tools = NO_TOOLS) -> TurnPrompt:
        """See Dialogue."""
        if tools:
            self._contents.tools = tools
        self._roles += [message.role for message in messages]
        self._contents.texts.extend(message.content for message in messages)
        ids = self._tokenizer.history_ids(self._roles, self._contents, most)
        prompt = unpack_ids(pack_ids(ids))
        marks = prompt[(prompt == self._begin) | (prompt == self._end)]
        self._opened = marks[-1:].tolist() == [self._begin]
        # At least one token must follow the kept ones, because sampling needs one.
        kept = min(_count_common(unpack_ids(context), prompt), len(ids) - 1)
        return TurnPrompt(kept, ids[kept:])

    def said(self, ids: Sequence[int]) -> None:
        """See Dialogue."""
        self._contents.answers[len(self._roles)] = self._strip_thought(ids)
        self._contents.texts.append("")
        self._roles.append("assistant")

    def _strip_thought(self, ids: Sequence[int]) -> Sequence[int]:
        """Return the part of an answer after its last thought and the newlines that follow.

        Returns an empty answer if the thought did not end.
        """
        marks = [at for at, id in enumerate(ids) if id in (self._begin, self._end)]
        if not marks:
            return [] if self._opened else ids
        if ids[marks[-1]] == self._begin:
            return []
        first = marks[-1] + 1
        while first < len(ids) and self._tokenizer.is_newlines(ids[first]):
            first += 1
        return ids[first:]


def _count_common(context: "NDArray[np.int32]", prompt: "NDArray[np.int32]") -> int:
    """Return the length of the common prefix."""
    width = min(len(context), len(prompt))
    differs = context[:width] != prompt[:width]
    return int(differs.argmax()) if differs.any() else width
