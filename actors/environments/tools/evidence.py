"""Facts that the replay of a solution gives of a program with tools: its transcript, suspects, and values. Pure.

All that a program says is hostile: of each text only the beginning is read, and everything found is bounded.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from actors.environments.probes import Transcript
from actors.text.conversation import Move
from spade.decoding import UnreadableError, decoded
from spade.protocol import MOST_VALUES, Observed

REPLAYED_BYTES = 16_384
VALUE_CHARACTERS = 200
_READ_CHARACTERS = 65_536
_MOST_LEAVES = 1_000
_WORD = re.compile(r"[^\W_]{2,}")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")

_arguments: msgspec.json.Decoder[dict[str, object]] = msgspec.json.Decoder(dict[str, object])


def replayed(play: Transcript[Move]) -> str:
    """The transcript of a play as text: instruction, calls, results, answer; at most REPLAYED_BYTES as UTF-8."""
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


def suspects(plays: Iterable[Transcript[Move]]) -> tuple[str, ...]:
    """Words of at least two characters in texts of calls that no schema, instruction or result before them has."""
    found: dict[str, None] = {}
    for play in plays:
        heard = _words(play.answers[0].tools)
        for move, before, after in zip(play.actions, play.answers, play.answers[1:], strict=False):
            heard |= _words(before.observation)
            for leaf in _leaves(move):
                if isinstance(leaf, str):
                    found |= dict.fromkeys(word for word in _in_order(leaf) if word not in heard)
            for result in after.results:
                heard |= _words(result.text)
    return tuple(word[:VALUE_CHARACTERS] for word in found)[:MOST_VALUES]


def values(plays: Iterable[Transcript[Move]], instructions: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Texts and numbers in calls that neither the instructions of a play nor its schemas state."""
    found: dict[str, None] = {}
    for play, asked in zip(plays, instructions, strict=True):
        stated = "\n".join([*(each[:_READ_CHARACTERS] for each in asked), _told(play.answers[0])]).casefold()
        numbers = set(_NUMBER.findall(stated))
        for leaf in (leaf for move in play.actions for leaf in _leaves(move)):
            if isinstance(leaf, str) and leaf.strip() and leaf.strip().casefold() not in stated:
                found[leaf.strip()[:VALUE_CHARACTERS]] = None
            elif isinstance(leaf, int | float) and not isinstance(leaf, bool) and f"{abs(leaf)}" not in numbers:
                found[f"{leaf}"[:VALUE_CHARACTERS]] = None
    return tuple(found)[:MOST_VALUES]


def _told(opening: Observed) -> str:
    """The schemas, as a player reads them."""
    return opening.tools[:_READ_CHARACTERS]


def _words(text: str) -> set[str]:
    return set(_in_order(text))


def _in_order(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text[:_READ_CHARACTERS])]


def _leaves(move: Move) -> Iterator[object]:
    """The values in the arguments of a move, out of all lists and objects, in their order."""
    for call in move.calls:
        try:
            left: list[object] = [decoded(_arguments.decode, call.arguments.encode())]
        except UnreadableError:
            continue
        for _ in range(_MOST_LEAVES):
            if not left:
                break
            value = left.pop()
            if isinstance(value, dict):
                left += reversed(value.values())
            elif isinstance(value, list):
                left += reversed(value)
            else:
                yield value


def shown(move: Move) -> str:
    """A move in a reason: its first call, or its answer."""
    call = next(iter(move.calls), None)
    return (
        f"answer {move.action[:40]!r}" if call is None else f"{call.name[:64]}({json.dumps(call.arguments)[1:-1][:80]})"
    )
