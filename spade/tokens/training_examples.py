"""Write sampled answers as conversations, from which other tools train a model by its chat template.

A tool renders the messages by the template and encodes the result. So an answer is given as messages only if this
yields the text and the control tokens that the model read and wrote. Otherwise the tool would train something else.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from spade.decoding import UnreadableError
from spade.errors import RunError
from spade.tokens.stand_ins import Slot
from spade.tokens.tokenizer import Answer, Segments, Tokenizer

_OPENINGS = (("user",), ("system", "user"))
_EXCHANGE = ("assistant", "user")


class ExampleMessage(msgspec.Struct, frozen=True):
    """One message of a training example, with the field names of chat templates."""

    role: str
    """system, user or assistant."""

    content: str
    """The text."""


class TrainingExample(NamedTuple):
    """An answer with everything before it, as messages."""

    prompt: list[ExampleMessage]
    """The messages before the answer."""

    completion: ExampleMessage
    """The answer."""

    exact: bool
    """True if the messages encode to the tokens of the trajectory. False if only their text is equal: the model may
    split a word into other tokens than the tokenizer does."""


def write_example(tokenizer: Tokenizer, prompt: Sequence[int], sampled: Sequence[int]) -> TrainingExample:
    """Write an answer with its prompt as messages.

    Raises UnreadableError with the reason if the messages would not give the same conversation back.
    """
    if not sampled or sampled[-1] not in tokenizer.end_ids:
        raise UnreadableError("cut off before their end")
    messages = read_messages(tokenizer, prompt)
    answer = ExampleMessage("assistant", _decode_text(tokenizer, sampled[:-1]))
    chat = [msgspec.structs.asdict(message) for message in (*messages, answer)]
    encoded = tokenizer.encode(tokenizer.rendered(chat))
    expected, again = (tokenizer.divided(ids) for ids in ([*prompt, *sampled[:-1]], encoded))
    end = again[len(expected)] if len(expected) < len(again) else None
    if again[: len(expected)] != expected or end not in tokenizer.end_ids:
        raise UnreadableError("not given back by the chat template")
    whole = [*prompt, *sampled]
    return TrainingExample(messages, answer, encoded[: len(whole)] == whole)


def read_messages(tokenizer: Tokenizer, prompt: Sequence[int]) -> list[ExampleMessage]:
    """Read the messages of a prompt, which ends with the beginning of an answer.

    Raises UnreadableError if the prompt does not have the form of the chat template.
    """
    for opening in _OPENINGS:
        for roles, segments in _find_layouts(tokenizer, opening, prompt):
            contents = _read_contents(tokenizer, segments, prompt)
            if contents is not None and len(contents) == len(roles):
                return [ExampleMessage(role, content) for role, content in zip(roles, contents, strict=True)]
    raise UnreadableError("not given back by the chat template")


def _find_layouts(
    tokenizer: Tokenizer, opening: tuple[str, ...], prompt: Sequence[int]
) -> Iterator[tuple[tuple[str, ...], Segments]]:
    """Yield the layout of the conversation that begins with `opening` and has as many control tokens as the prompt."""
    try:
        bare, longer = (tokenizer.segments((*opening, *more)) for more in ((), _EXCHANGE))
        found = sum(id in _list_controls(longer) for id in prompt)
        least, more = len(_list_controls(bare)), len(_list_controls(longer)) - len(_list_controls(bare))
        if more > 0 and found >= least and (found - least) % more == 0:
            roles = (*opening, *_EXCHANGE * ((found - least) // more))
            yield roles, tokenizer.segments(roles)
    except RunError:  # this template has no conversation of these roles
        return


def _list_controls(segments: Segments) -> list[int]:
    return [segment for segment in segments if isinstance(segment, int)]


def _read_contents(tokenizer: Tokenizer, segments: Segments, prompt: Sequence[int]) -> list[str] | None:
    """Return the contents of the messages in order, or None if the prompt does not have this layout."""
    controls = _list_controls(segments)
    if [id for id in prompt if id in controls] != controls:
        return None
    runs: list[tuple[str | Slot, ...]] = [()]
    for segment in segments:
        if isinstance(segment, int):
            runs.append(())
        elif not isinstance(segment, Answer):
            runs[-1] = segment
    contents, begin = list[str](), 0
    ends = (*(place for place, id in enumerate(prompt) if id in controls), len(prompt))
    for run, end in zip(runs, ends, strict=True):
        found = _read_content(run, _decode_text(tokenizer, prompt[begin:end]))
        if found is None:
            return None
        contents += found
        begin = end + 1
    return contents


def _read_content(run: tuple[str | Slot, ...], text: str) -> list[str] | None:
    """Return the content in a text between two control tokens, [] for a place without a message.

    Returns None if the text does not have the form of `run`, or if `run` has two messages.
    """
    at = [place for place, part in enumerate(run) if isinstance(part, Slot)]
    first = at[0] if at else len(run)
    before, after = ("".join(part for part in parts if isinstance(part, str)) for parts in (run[:first], run[first:]))
    if not at:
        return [] if text == before else None
    if len(at) > 1 or len(text) < len(before + after) or not (text.startswith(before) and text.endswith(after)):
        return None
    return [text[len(before) : len(text) - len(after)]]


def _decode_text(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Return the text of tokens, control tokens included. Raises UnreadableError if a part of it is not UTF-8."""
    pieces = (
        tokenizer.token_text(part) if isinstance(part, int) else part.decode(errors="strict")
        for part in tokenizer.divided(ids)
    )
    try:
        return "".join(pieces)
    except UnicodeDecodeError:
        raise UnreadableError("not text") from None
