"""Encode conversations as tokens: the template's control tokens, and text without control tokens between them."""

import json
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import tokenizers

from spade.decoding import UnreadableError, try_decode
from spade.errors import RunError
from spade.tokens.chat import Chat
from spade.tokens.files import end_ids, read_settings, read_special_tokens, read_template, read_tokenizer
from spade.tokens.marks import THINK, THOUGHT
from spade.tokens.pieces import TokenBytes
from spade.tokens.plain import PlainText, encode_within, list_control_ids
from spade.tokens.stand_ins import Slot
from spade.tokens.template import Template
from spade.tokens.tools import FIRST, NO_TOOLS, Tools


class Message(Protocol):
    """Any object with a role (system, user, assistant, tool) and content."""

    @property
    def role(self) -> str: ...

    @property
    def content(self) -> str: ...


class Answer(NamedTuple):
    """The place of an answer's tokens in a layout."""

    message: int
    """Index of the answer's message."""


@dataclass
class Contents:
    """The contents of a conversation's messages."""

    texts: list[str] = field(default_factory=list)
    """One text for each message, or "" if tokens replace it."""

    answers: dict[int, Sequence[int]] = field(default_factory=dict)
    """Tokens that replace texts, by index of the message."""

    tools: Tools = NO_TOOLS
    """Tools that the opening shows."""

    known: dict[str, list[int]] = field(default_factory=dict)
    """Cache of the ids of texts that were encoded before."""

    def shown(self, slot: Slot) -> str:
        """Return the text in a slot."""
        of_tools = slot.number >= FIRST
        return slot.text(self.tools.strings[slot.number - FIRST] if of_tools else self.texts[slot.number])


Segments = tuple[int | Answer | tuple[str | Slot, ...], ...]
"""A layout as control tokens, places of answers, and the runs of text between them."""


class ChatPrompt(NamedTuple):
    """The prompt of a chat, up to the beginning of an answer."""

    ids: list[int]
    """Token ids."""

    opens: bool
    """True if the prompt itself opens the answer's thought."""


_OPENINGS = 64  # cached layouts of openings, one for each structure of tools
_LONGEST_KEPT = 16_384  # characters; the layout of a chat with a longer structure is not cached
_LAYOUTS = 256  # cached layouts of histories; a play needs one for each turn


class Tokenizer:
    """A checkpoint's tokenizer. Its ids are under `size`, and `end_ids` are the tokens that end a turn.

    The checkpoint's files name some end tokens. The control token that the template writes after an answer is added,
    because a model that learned this template ends its turns with that token.

    Messages are encoded together with the template's plain text around them, so the ids are the ids of the whole text.
    The template's control tokens are encoded separately, so that a message cannot produce one. Layouts are cached by
    their sequence of roles.
    """

    def __init__(self, bpe: tokenizers.Tokenizer, template: Template, end_ids: frozenset[int]) -> None:
        self._bpe = bpe
        self._template = template
        self._controls = list_control_ids(bpe)
        self._special = frozenset(id for id, token in bpe.get_added_tokens_decoder().items() if token.special)
        self._plain = PlainText(bpe)
        self._token_bytes = TokenBytes(bpe)
        self._opening = lru_cache(_OPENINGS)(self._read_opening)
        self._turn = lru_cache(_LAYOUTS)(self._read_turn)
        self._chat = lru_cache(_LAYOUTS)(self._read_chat)
        self._history = lru_cache(_LAYOUTS)(self._read_history)
        self.end_ids = end_ids
        self.end_ids |= self._find_template_end()
        self.size: int = max(bpe.get_vocab_size(), *(id + 1 for id in bpe.get_added_tokens_decoder()), 0)

    @classmethod
    def load(cls, folder: Path, *, thinking: bool = False) -> "Tokenizer":
        """Read tokenizer.json, the chat template and the end-of-turn tokens of a Hugging Face folder.

        `thinking` is the template's `enable_thinking`. Raises RunError if a file is missing or does not parse.
        """
        settings = read_settings(folder)
        variables = {**read_special_tokens(settings), "enable_thinking": thinking}
        template = Template(read_template(folder, settings), variables)
        return cls(read_tokenizer(folder / "tokenizer.json"), template, end_ids(folder))

    def encode(self, text: str, room: int = sys.maxsize) -> list[int]:
        """Encode a model's text. Control tokens in the text are encoded as such, and no token is added.

        If the text's beginning alone exceeds `room`, this may return only the ids of the beginning.
        """
        return encode_within(lambda part: self._bpe.encode(part, add_special_tokens=False).ids, text, room)

    def decode(self, ids: Sequence[int], keep: Collection[str] = ()) -> str:
        """Return the text of `ids` without special tokens. Special tokens in `keep` stay."""
        hidden = self._list_hidden(keep)
        text: str = self._bpe.decode([id for id in ids if id not in hidden], skip_special_tokens=False)
        return text

    def pieces(self, ids: Sequence[int], keep: Collection[str] = ()) -> list[bytes]:
        """Return the bytes that each token adds to the text of `decode`. A character may lie in several tokens."""
        hidden = self._list_hidden(keep)
        shown = iter(self._token_bytes.split([id for id in ids if id not in hidden]))
        return [b"" if id in hidden else next(shown) for id in ids]

    def prompt_ids(self, messages: Sequence[Message], room: int = sys.maxsize, tools: Tools = NO_TOOLS) -> list[int]:
        """Encode a conversation up to the beginning of an answer. Returns more than `room` ids if it does not fit.

        Some ids are then missing, because a text that is too long is not read to its end. Raises RunError if the
        template refuses the conversation, UnreadableError if it refuses these tools.
        """
        opening = self._opening(tuple(message.role for message in messages), tools.skeleton)
        return self._encode_segments(opening, Contents([message.content for message in messages], tools=tools), room)

    def turn_ids(self, sampled: Sequence[int], messages: Sequence[Message], room: int = sys.maxsize) -> list[int]:
        """Encode the text between an assistant's sampled tokens and its next turn.

        Sampled tokens are never tokenised again. The result encodes the template's text after an assistant's content,
        with all of `messages`. It does not depend on earlier turns. An end-of-turn token at the end of `sampled` is not
        repeated. `room` is as in prompt_ids.
        """
        turn = self._turn(tuple(message.role for message in messages))
        if sampled and sampled[-1] in self.end_ids and turn[0] in self.end_ids:
            turn = turn[1:]
        return self._encode_segments(turn, Contents(["", "", *(message.content for message in messages)]), room)

    def history_ids(self, roles: Sequence[str], contents: Contents, room: int) -> list[int]:
        """Encode a conversation up to the beginning of the next answer, as the template renders the whole of it.

        The tokens of earlier answers take their places unchanged. An end-of-turn token at their end is not repeated.
        `room` is as in prompt_ids. Raises RunError if the template refuses the conversation.
        """
        return self._encode_segments(self._history(tuple(roles), contents.tools.skeleton), contents, room)

    def thought_ids(self) -> tuple[int, int]:
        """Return the tokens that begin and end a thought.

        Raises RunError if the checkpoint lacks such tokens, or if its template keeps earlier thoughts.
        """
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
        """Return True if a token consists only of newlines."""
        text = self.decode([id])
        return bool(text) and not text.strip("\n")

    def dropped(self, roles: Sequence[str], tools: Tools) -> list[str]:
        """Return the strings of `tools` that the template does not show in the opening of a conversation.

        Raises RunError if the template refuses the conversation.
        """
        layout = self._template.layout(roles, tools, prompt=True)
        shown = {piece.number - FIRST for piece in layout if isinstance(piece, Slot)}
        return [text for place, text in enumerate(tools.strings) if place not in shown]

    def chat_prompt(self, chat: Chat, room: int = sys.maxsize) -> ChatPrompt:
        """Encode a client's chat up to the beginning of an answer, like `prompt_ids`.

        Raises UnreadableError if the template refuses the chat.
        """
        # The client chooses the structure, and a long one would take much of the cache.
        read = self._chat if len(chat.skeleton) <= _LONGEST_KEPT else self._read_chat
        segments, opens = read(chat.skeleton)
        contents = Contents(list(chat.contents), tools=Tools("", chat.strings))
        return ChatPrompt(self._encode_segments(segments, contents, room), opens)

    def token_text(self, id: int) -> str:
        """Return the text of one token, even of a special token."""
        text: str = self._bpe.decode([id], skip_special_tokens=False)
        return text

    def divided(self, ids: Sequence[int]) -> list[int | bytes]:
        """Divide tokens into control tokens and the bytes of the texts between them."""
        parts = list[int | bytes]()
        for control, run in groupby(ids, lambda id: id in self._controls):
            same = list(run)
            parts += same if control else [b"".join(self._token_bytes.split(same))]
        return parts

    def segments(self, roles: Sequence[str]) -> Segments:
        """Return the layout of a conversation up to the beginning of an answer.

        Raises RunError if the template refuses the conversation.
        """
        return self._opening(tuple(roles), "")

    def rendered(self, chat: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None = None) -> str:
        """Render a conversation. Raises RunError if the template refuses it."""
        return self._template.rendered(chat, tools, prompt=False)

    def opens_thought(self) -> bool:
        """Return True if the prompt itself begins the thought of the next answer."""
        return _is_opening_thought(self._template.layout(("user",), prompt=True))

    def _list_hidden(self, keep: Collection[str]) -> frozenset[int]:
        """Return the special tokens that are not in `keep`."""
        return self._special - {self._bpe.token_to_id(token) for token in keep}

    def _read_opening(self, roles: tuple[str, ...], skeleton: str) -> Segments:
        return _require_closed(self._make_segments(self._find_layout(roles, skeleton)))

    def _read_chat(self, skeleton: str) -> tuple[Segments, bool]:
        """Return the segments of a chat, and True if its prompt begins a thought."""
        shape = try_decode(json.loads, skeleton.encode())
        try:
            layout = self._template.laid_out(shape["messages"], shape["tools"], shape["variables"], prompt=True)
            segments = _require_closed(self._make_segments(layout))
        except RunError as error:
            raise UnreadableError(str(error)) from None
        return segments, _is_opening_thought(layout)

    def _read_turn(self, roles: tuple[str, ...]) -> Segments:
        layout = self._template.layout(("user", "assistant", *roles), prompt=True)
        [said] = [place for place, piece in enumerate(layout) if isinstance(piece, Slot) and piece.number == 1]
        return _require_closed(self._make_segments(layout[said + 1 :]))

    def _find_template_end(self) -> frozenset[int]:
        """Return the control token that the template writes after an answer.

        Returns an empty set if the template cannot hold a conversation.
        """
        try:
            turn = self._turn(("user",))
        except RunError:  # the first conversation reports the error
            return frozenset()
        return frozenset([next(segment for segment in turn if isinstance(segment, int))])

    def _read_history(self, roles: tuple[str, ...], skeleton: str) -> Segments:
        answers = {number for number, role in enumerate(roles) if role == "assistant"}
        layout = self._find_layout(roles, skeleton)
        parts = [Answer(part.number) if isinstance(part, Slot) and part.number in answers else part for part in layout]
        return _require_closed(self._make_segments(parts))

    def _find_layout(self, roles: tuple[str, ...], skeleton: str) -> tuple[str | Slot, ...]:
        """Return the layout up to the beginning of an answer. Raises UnreadableError if tools are to blame."""
        try:
            return self._template.layout(roles, Tools(skeleton), prompt=True)
        except RunError as error:
            if not skeleton:
                raise
            raise UnreadableError(str(error)) from None

    def _make_segments(self, layout: Sequence[str | Slot | Answer]) -> Segments:
        pieces = [part for piece in layout for part in (self._split(piece) if isinstance(piece, str) else [piece])]
        return tuple(_group_runs(pieces))

    def _split(self, text: str) -> Iterator[int | str]:
        """Split the template's own text at the control tokens that the tokenizer itself finds."""
        encoding, end = self._bpe.encode(text, add_special_tokens=False), 0
        for id, (begins, ends) in zip(encoding.ids, encoding.offsets, strict=True):
            if id in self._controls:
                yield text[end:begins]
                yield id
                end = ends
        yield text[end:]

    def _encode_segments(self, segments: Segments, contents: Contents, room: int) -> list[int]:
        ids: list[int] = []
        answered = False
        for segment in segments:
            if isinstance(segment, Answer):
                ids += contents.answers[segment.message]
            elif not isinstance(segment, int):
                ids += self._encode_text(segment, contents, room - len(ids))
            elif not (answered and segment in self.end_ids and ids[-1] in self.end_ids):
                ids.append(segment)
            answered = isinstance(segment, Answer)
        return ids

    def _encode_text(self, run: Sequence[str | Slot], contents: Contents, room: int) -> list[int]:
        text = "".join(part if isinstance(part, str) else contents.shown(part) for part in run)
        if text in contents.known:
            return contents.known[text]
        ids = self._plain.ids(text, room)
        if len(ids) <= room:  # otherwise some ids may be missing
            contents.known[text] = ids
        return ids


def _is_opening_thought(layout: Sequence[str | Slot]) -> bool:
    """Return True if the template's last text begins a thought."""
    behind = layout[-1]
    return isinstance(behind, str) and behind.rfind(THINK) > behind.rfind(THOUGHT)


def _require_closed(segments: Segments) -> Segments:
    """Return `segments`. Raises RunError unless a control token follows the last content.

    A program could imitate an end of turn that is ordinary text.
    """
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


def _group_runs(pieces: Iterable[int | Answer | str | Slot]) -> Iterator[int | Answer | tuple[str | Slot, ...]]:
    for text, group in groupby(pieces, lambda piece: isinstance(piece, str | Slot)):
        if not text:
            yield from (piece for piece in group if isinstance(piece, int | Answer))
        elif run := tuple(piece for piece in group if piece and isinstance(piece, str | Slot)):
            yield run
