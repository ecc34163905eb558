"""Take an action from one observation to another: put the names of the new observation into it. Pure."""

import random
import re

_WORD = re.compile(r"[^\W_]+")
_READ_CHARACTERS = 8_192


def replace_names(action: str, then: str, now: str, rng: random.Random) -> str:
    """Return an action that followed the observation `then`, with names of the observation `now`.

    A name is a word or number that only one of both observations states. Each name of the action is replaced by a
    random one of the same kind (a number for a number), different names by different ones. The action is not changed
    if there are too few.
    """
    before, after = (dict.fromkeys(_WORD.findall(text[-_READ_CHARACTERS:])) for text in (then, now))
    old = [word for word in dict.fromkeys(_WORD.findall(action)) if word in before and word not in after]
    names: dict[str, str] = {}
    for numeric in (True, False):
        there = [word for word in after if word not in before and word.isdecimal() is numeric]
        left = [word for word in old if word.isdecimal() is numeric]
        names |= dict(zip(left, rng.sample(there, min(len(left), len(there))), strict=False))
    return _WORD.sub(lambda word: names.get(word[0], word[0]), action)
