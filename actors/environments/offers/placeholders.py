"""Placeholders in an action (`buy <n>`, `ask [name]`, `move:X:Y`, `guess(word)`), filled from the observation. Pure."""

import random
import re
from collections.abc import Sequence
from math import prod

from actors.environments.offers.ranges import RANGE, numbers
from actors.environments.offers.words import Words, unique, vocabulary

FILLINGS = 64
"""Most actions that are made of one with placeholders."""
_MOST_PLACES = 6
_LONGEST_ABOUT = 200
"""Characters that are read of an explanation: each of the many actions of an item reads it again."""

_PLACE = re.compile(
    r"<([^<>]{1,40})>|\{([^{}]{1,40})\}|\[([^\[\]]{1,40})\]"
    r"|(?<![\w'-])([NXYKMnxyk]|[A-Z][A-Z_]{1,15}\d?)(?![\w'])|(?<= )(_{2,9}|\.{3}|…)"
)
_CALL = re.compile(r"\b([A-Za-z_]\w{0,30})\(((?:[A-Za-z_]\w{0,20}(?:, ?)?){1,6})\)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_WORD = re.compile(r"[a-z]{2}")
_OR = re.compile(r" ?[|/,] ?| or ")
_NUMERIC = vocabulary(
    "n x y z k m amount bid cell col cols column columns count day days digit digits guess id idx index int integer "
    "length minutes num number numbers pos position price qty quantity row rows size slot step steps units value "
    "weight whole"
)
_DIRECTIONS = ("north", "south", "east", "west", "up", "down", "left", "right")


def filled(action: str, words: Words, about: str = "") -> Sequence[str]:
    """The actions that one stands for, at most FILLINGS; only itself if it has no placeholder.

    `about` is the explanation beside the action; a range in it gives the numbers. If all placeholders may be names
    (`go N`), the action as it is written comes first.
    """
    action = _CALL.sub(_opened, action)
    places = [place for place in _PLACE.finditer(action) if _is_place(place, action)][:_MOST_PLACES]
    if not places:
        return [action]
    meant = _numbers(RANGE.search(about[:_LONGEST_ABOUT]))
    pools = [_values(place[place.lastindex or 0], words, meant) for place in places]
    made = [_with(action, places, values) for values in _combinations(pools)]
    return [action, *made] if all(place[4] for place in places) else made


def _opened(call: re.Match[str]) -> str:
    """`guess(word)` as `guess(<word>)`."""
    return f"{call[1]}({_NAME.sub(lambda name: f'<{name[0]}>', call[2])})"


def _is_place(place: re.Match[str], action: str) -> bool:
    """True for a name behind a word of small letters, or a small letter behind any word: not for `GO NORTH`."""
    name, before = place[4], action[: place.start()]
    return name is None or _WORD.search(before) is not None or (name.islower() and before.rstrip(" :,") != "")


def _numbers(ranged: re.Match[str] | None) -> Sequence[str] | None:
    """At most FILLINGS numbers of a range; empty if it runs downwards, None if there is no range."""
    return None if ranged is None else numbers(ranged, FILLINGS)


def _values(name: str, words: Words, meant: Sequence[str] | None) -> Sequence[str]:
    """The values that a placeholder of this name may hold; `meant` are the numbers of the range beside the action."""
    chain = _numbers(RANGE.search(name))
    if chain is not None:
        return chain or words.numbers
    either = [value.strip(" '\"`") for value in _OR.split(name)]
    if len(either) > 1 and all(either):
        return either
    kinds = re.split(r"[\W_]+", re.sub(r"\d+$", "", name.lower()))
    if meant is not None or any(kind in _NUMERIC for kind in kinds):
        return meant or words.numbers
    directions = _DIRECTIONS if any(kind.startswith("dir") for kind in kinds) else ()
    return unique((*directions, *words.quotes, *words.words), 2 * FILLINGS) or words.numbers


def _combinations(pools: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """At most FILLINGS choices of a value from each pool, spread over all."""
    count = prod(map(len, pools))
    drawn = range(count) if count <= FILLINGS else random.Random(0).sample(range(count), FILLINGS)
    found = []
    for index in drawn:
        values = []
        for pool in pools:
            index, at = divmod(index, len(pool))
            values.append(pool[at])
        found.append(tuple(values))
    return found


def _with(action: str, places: Sequence[re.Match[str]], values: Sequence[str]) -> str:
    parts, end = [], 0
    for place, value in zip(places, values, strict=True):
        parts += [action[end : place.start()], value]
        end = place.end()
    return "".join((*parts, action[end:]))
