"""Conversations as tokens: the template's control tokens, and text without control tokens between them."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, Protocol

import tokenizers

from spade.errors import RunError
from spade.tokens.files import end_ids, read_settings, read_tokenizer, special_tokens, template_text
from spade.tokens.plain import PlainText, control_ids, within
from spade.tokens.template import Slot, Template


class Message(Protocol):
    """Anything with a role (system, user, assistant) and content."""

    @property
    def role(self) -> str: ...

    @property
    def content(self) -> str: ...


class Answer(NamedTuple):
    """The place of an answer's tokens."""

    message: int


@dataclass(frozen=True)
class Contents:
    """The contents of a conversation's messages.

    texts    one for each message; "" if tokens replace it
    answers  these tokens, by index of the message
    known    cache: the ids of texts encoded before
    """

    texts: list[str] = field(default_factory=list)
    answers: dict[int, Sequence[int]] = field(default_factory=dict)
    known: dict[str, list[int]] = field(default_factory=dict)


Segments = tuple[int | Answer | tuple[str | Slot, ...], ...]
"""A layout as control tokens, places of answers, and the runs of text between them."""

THINK, THOUGHT = "<think>", "</think>"
_LAYOUTS = 256  # most cached layouts of histories; a play needs one for each turn


class Tokenizer:
    """A checkpoint's tokenizer of `size` tokens; `end_ids` are those that end a turn.

    Messages are encoded together with the template's text around them, which gives the ids of the text as a whole, and
    apart from the template's control tokens, so that no message can produce one. Layouts are cached by their sequence
    of roles: a template that writes the date keeps that of its first conversation.
    """

    def __init__(self, bpe: tokenizers.Tokenizer, template: Template, end_ids: frozenset[int]) -> None:
        self._bpe = bpe
        self._template = template
        self._controls = control_ids(bpe)
        self._plain = PlainText(bpe)
        self._opening = cache(self._read_opening)
        self._turn = cache(self._read_turn)
        self._history = lru_cache(_LAYOUTS)(self._read_history)
        self.end_ids = end_ids
        self.size: int = bpe.get_vocab_size()

    @classmethod
    def load(cls, folder: Path, *, thinking: bool = False) -> "Tokenizer":
        """Read tokenizer.json, the chat template and the end-of-turn tokens of a Hugging Face folder.

        `thinking` is the template's `enable_thinking`. Raises RunError if a file is missing or does not parse.
        """
        settings = read_settings(folder)
        variables = {**special_tokens(settings), "enable_thinking": thinking}
        template = Template(template_text(folder, settings), variables)
        return cls(read_tokenizer(folder / "tokenizer.json"), template, end_ids(folder))

    def encode(self, text: str, room: int = sys.maxsize) -> list[int]:
        """Ids of a model's text; control tokens written in it are encoded as such, none is added.

        If its beginning alone exceeds `room`, perhaps those of the beginning alone.
        """
        return within(lambda part: self._bpe.encode(part, add_special_tokens=False).ids, text, room)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of `ids` without special tokens."""
        text: str = self._bpe.decode(ids, skip_special_tokens=True)
        return text

    def prompt_ids(self, messages: Sequence[Message], room: int = sys.maxsize) -> list[int]:
        """Ids of the conversation up to the beginning of an answer; more than `room` if it does not fit.

        Some ids are then missing, since a text that is too long is not read to its end. Raises RunError if the template
        refuses the conversation.
        """
        opening = self._opening(tuple(message.role for message in messages))
        return self._ids(opening, Contents([message.content for message in messages]), room)

    def turn_ids(self, sampled: Sequence[int], observation: Message, room: int = sys.maxsize) -> list[int]:
        """Ids between an assistant's sampled tokens and its next turn: sampled tokens are never tokenised again.

        They are the template's text after an assistant's content, and do not depend on earlier turns. An end-of-turn
        token at the end of `sampled` is not repeated. `room` as in prompt_ids.
        """
        turn = self._turn(observation.role)
        if sampled and sampled[-1] in self.end_ids and turn[0] in self.end_ids:
            turn = turn[1:]
        return self._ids(turn, Contents(["", "", observation.content]), room)

    def history_ids(self, roles: Sequence[str], contents: Contents, room: int) -> list[int]:
        """Ids of a conversation up to the beginning of the next answer, as the template renders it now.

        The tokens of earlier answers take their places unchanged; an end-of-turn token at their end is not repeated.
        `room` as in prompt_ids. Raises RunError if the template refuses the conversation.
        """
        return self._ids(self._history(tuple(roles)), contents, room)

    def thought_ids(self) -> tuple[int, int]:
        """The tokens that begin and end a thought. Raises RunError if earlier thoughts do not leave the context."""
        ids = {token.content: id for id, token in self._bpe.get_added_tokens_decoder().items()}
        if THINK not in ids or THOUGHT not in ids:
            raise RunError(
                f"play.thoughts: the model's tokenizer has no tokens {THINK} and {THOUGHT}, so it has "
                'no thoughts to strip; use "keep"'
            )
        if not self._template.forgets(THINK, THOUGHT):
            raise RunError('play.thoughts: the model\'s chat template shows earlier thoughts; use "keep"')
        return ids[THINK], ids[THOUGHT]

    def is_newlines(self, id: int) -> bool:
        """True for a token of nothing but newlines."""
        text = self.decode([id])
        return bool(text) and not text.strip("\n")

    def _read_opening(self, roles: tuple[str, ...]) -> Segments:
        return _closed(self._segments(self._template.layout(roles, prompt=True)))

    def _read_turn(self, role: str) -> Segments:
        layout = self._template.layout(("user", "assistant", role), prompt=True)
        [said] = [place for place, piece in enumerate(layout) if isinstance(piece, Slot) and piece.message == 1]
        return _closed(self._segments(layout[said + 1 :]))

    def _read_history(self, roles: tuple[str, ...]) -> Segments:
        said = {number for number, role in enumerate(roles) if role == "assistant"}
        layout = self._template.layout(roles, prompt=True)
        parts = [Answer(part.message) if isinstance(part, Slot) and part.message in said else part for part in layout]
        return _closed(self._segments(parts))

    def _segments(self, layout: Sequence[str | Slot | Answer]) -> Segments:
        pieces = [part for piece in layout for part in (self._split(piece) if isinstance(piece, str) else [piece])]
        return tuple(_runs(pieces))

    def _split(self, text: str) -> Iterator[int | str]:
        """The template's own text, split at the control tokens that the tokenizer itself finds."""
        encoding, end = self._bpe.encode(text, add_special_tokens=False), 0
        for id, (begins, ends) in zip(encoding.ids, encoding.offsets, strict=True):
            if id in self._controls:
                yield text[end:begins]
                yield id
                end = ends
        yield text[end:]

    def _ids(self, segments: Segments, contents: Contents, room: int) -> list[int]:
        ids: list[int] = []
        answered = False
        for segment in segments:
            if isinstance(segment, Answer):
                ids += contents.answers[segment.message]
            elif not isinstance(segment, int):
                ids += self._text_ids(segment, contents, room - len(ids))
            elif not (answered and segment in self.end_ids and ids[-1] in self.end_ids):
                ids.append(segment)
            answered = isinstance(segment, Answer)
        return ids

    def _text_ids(self, run: Sequence[str | Slot], contents: Contents, room: int) -> list[int]:
        text = "".join(part if isinstance(part, str) else part.text(contents.texts[part.message]) for part in run)
        if text in contents.known:
            return contents.known[text]
        ids = self._plain.ids(text, room)
        if len(ids) <= room:  # else some ids may be missing
            contents.known[text] = ids
        return ids


def _closed(segments: Segments) -> Segments:
    """Raises RunError unless a control token ends the last content: a program could write an end of ordinary text."""
    for segment in reversed(segments):
        if isinstance(segment, int):
            return segments
        if isinstance(segment, Answer):
            continue
        if any(isinstance(part, Slot) for part in segment):
            break
    raise RunError(
        "the model's chat template ends a turn by ordinary text, which a program could write into its observations; "
        "use a checkpoint whose turns end with a token of their own"
    )


def _runs(pieces: Iterable[int | Answer | str | Slot]) -> Iterator[int | Answer | tuple[str | Slot, ...]]:
    for text, group in groupby(pieces, lambda piece: isinstance(piece, str | Slot)):
        if not text:
            yield from (piece for piece in group if isinstance(piece, int | Answer))
        elif run := tuple(piece for piece in group if piece and isinstance(piece, str | Slot)):
            yield run
