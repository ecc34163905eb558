"""Collect evidence from plays of a program's solution calls: the transcript, suspect words, and values. Pure.

The texts of a program are hostile, so only the beginning of each text is read, and every result is bounded.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

import msgspec

from actors.environments.probes import Transcript
from actors.text.conversation import Move
from actors.text.leaks import LEAST, SearchableText, strip_number
from actors.text.toolcalls.notation import write_call
from spade.decoding import UnreadableError, try_decode
from spade.protocol import MOST_VALUES, Observed, ToolCall
from spade.text import as_line

REPLAYED_BYTES = 16_384
VALUE_CHARACTERS = 200
READ_CHARACTERS = 65_536
MOST_LEAVES = 1_000
"""The largest number of different values that all calls of a solution together may have."""
_WORD = re.compile(r"[^\W_]{2,}")

_arguments: msgspec.json.Decoder[dict[str, object]] = msgspec.json.Decoder(dict[str, object])


def render_play(play: Transcript[Move]) -> str:
    """Return the transcript of a play as text: instruction, calls, results, answer. At most REPLAYED_BYTES of UTF-8."""
    lines = [f"User: {play.answers[0].observation}"]
    for move, answer in zip(play.actions, play.answers[1:], strict=True):
        for call, result in zip(move.calls, answer.results, strict=True):
            lines += [f"Call: {call.name} {call.arguments}", f"Result: {result.text}"]
        lines += [f"Answer: {move.action}"] if move.action else []
    text = "\n".join(lines).encode()
    if len(text) <= REPLAYED_BYTES:
        return text.decode()
    cut = f"\n… ({len(text)} bytes)"
    return text[: REPLAYED_BYTES - len(cut.encode())].decode(errors="ignore") + cut


def find_suspects(plays: Iterable[Transcript[Move]]) -> tuple[str, ...]:
    """Return words in the texts of calls that no schema, instruction or result before them states.

    A word has at least two characters. Numbers are ignored, since a sound solution computes some.
    """
    found: dict[str, None] = {}
    for play in plays:
        heard = _find_words(_render_schemas(play.answers[0]))
        for move, before, after in zip(play.actions, play.answers, play.answers[1:], strict=False):
            heard |= _find_words(before.observation)
            for leaf, is_text in collect_leaves([move]).items():
                found |= dict.fromkeys(word for word in _split_words(leaf) if is_text and word not in heard)
            for result in after.results:
                heard |= _find_words(result.text)
    return tuple(word[:VALUE_CHARACTERS] for word in found)[:MOST_VALUES]


def find_values(plays: Iterable[Transcript[Move]], instructions: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return texts and numbers in calls that neither the instructions of a play nor its schemas state.

    The result has at most MOST_VALUES + 1 values, so that a caller can see whether there were too many.
    """
    found: dict[str, None] = {}
    for play, asked in zip(plays, instructions, strict=True):
        told = SearchableText(
            "\n".join([*(each[:READ_CHARACTERS] for each in asked), _render_schemas(play.answers[0])])
        )
        for leaf in collect_leaves(play.actions):
            if len(found) <= MOST_VALUES and not told.states(leaf):
                found[leaf[:VALUE_CHARACTERS]] = None
    return tuple(found)


def find_joined_values(plays: Iterable[Transcript[Move]]) -> list[str]:
    """Return the joined short values of calls (`find_pieces`) that the opening of a play does not state."""
    found: dict[str, None] = {}
    for play in plays:
        opening = play.answers[0]
        told = SearchableText(f"{opening.observation[:READ_CHARACTERS]}\n{_render_schemas(opening)}")
        pieces = (piece for move in play.actions for call in move.calls for piece in find_pieces(call))
        found |= dict.fromkeys(piece[:VALUE_CHARACTERS] for piece in pieces if not told.states(piece))
    return list(found)


def _render_schemas(opening: Observed) -> str:
    """Return the schemas as a player reads them.

    An escaped newline becomes a newline, so its "n" is not read as part of a word.
    """
    return opening.tools[:READ_CHARACTERS].replace("\\n", "\n")


def _find_words(text: str) -> set[str]:
    return set(_split_words(text))


def _split_words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text[:READ_CHARACTERS])]


def collect_leaves(moves: Iterable[Move]) -> dict[str, bool]:
    """Return the texts, keys and numbers in the arguments of calls, in their order. Numbers map to False, others True.

    The result may exceed MOST_LEAVES by the leaves of one call.
    """
    found: dict[str, bool] = {}
    for call in (call for move in moves for call in move.calls):
        if len(found) <= MOST_LEAVES:
            found |= _walk_leaves(read_arguments(call))
    return found


def find_pieces(call: ToolCall) -> list[str]:
    """Return the short values of a call's arguments, joined into one text.

    If several arguments have short values, a second text joins each name and its values. A secret may be cut into
    pieces: `digits=[4, 2, 7, 1]`, or `a=4, b=2`. Returns [] if the joined values are short.
    """
    named = {name: _join_short_values(value) for name, value in read_arguments(call).items()}
    named = {name: value for name, value in named.items() if value}
    joined = "".join(named.values())
    if len(joined) <= LEAST:
        return []
    return [joined, *(["".join(f"{name}{value}" for name, value in named.items())] if len(named) > 1 else [])]


def _join_short_values(value: object) -> str:
    return "".join(leaf for leaf, _ in _walk_leaves(value) if len(leaf) < LEAST)


def write_values(call: ToolCall) -> str:
    """Return the values of a call's arguments as one text, or the tool's name if there are none."""
    values = list(read_arguments(call).values())
    return " ".join(leaf for leaf, _ in _walk_leaves(values)) or call.name


def read_arguments(call: ToolCall) -> dict[str, object]:
    """Return the arguments of a call, or {} if they cannot be read."""
    try:
        return try_decode(_arguments.decode, call.arguments.encode())
    except UnreadableError:
        return {}


def _walk_leaves(value: object) -> Iterator[tuple[str, bool]]:
    """Yield the leaves of one JSON value in nested lists and objects, and the keys of the objects."""
    left = [value]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += [each for pair in reversed(value.items()) for each in reversed(pair)]
        elif isinstance(value, list):
            left += reversed(value)
        elif isinstance(value, str):
            if value.strip():
                yield value.strip(), True
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield ("-" if value < 0 else "") + strip_number(f"{Decimal(str(value)):f}"), False


def describe_move(move: Move) -> str:
    """Describe a move in the text of a rejection: its first call, or its answer."""
    call = next(iter(move.calls), None)
    return f"answer {move.action[:40]!r}" if call is None else as_line(write_call(call.name, call.arguments), 140)
