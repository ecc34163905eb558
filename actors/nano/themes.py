"""Themes that documents lend to environments: the class name and the words of the actions."""

import re
from collections.abc import Sequence
from random import Random

WORDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "mathematics": (("circle", "square", "star", "cross", "ring"), ("alpha", "beta", "gamma", "delta", "omega")),
    "science": (("acid", "salt", "metal", "gas", "water"), ("iron", "gold", "tin", "lead", "zinc")),
    "everyday": (("red", "green", "blue", "white", "black"), ("bread", "milk", "rice", "tea", "soup")),
    "code": (("oak", "elm", "fir", "ash", "yew"), ("east", "west", "north", "south", "centre")),
}
"""For each document field: the sets of words from which environments choose the names of their actions."""

NAMES: dict[str, tuple[str, ...]] = {
    "mathematics": (
        "bipartite", "circles", "decimal", "graph", "greedy", "logarithms", "network", "right", "squares",
        "tessellations",
    ),
    "science": (
        "greenhouse", "honeybee", "immune", "magnets", "migration", "pendulum", "reaction", "rust", "sound", "waves",
    ),
    "everyday": (
        "bakeries", "bank", "bicycle", "clocks", "delivery", "drawbridges", "fishing", "hospital", "recipes",
        "warehouses",
    ),
    "code": (
        "booking", "calendar", "cart", "invoice", "ledger", "meter", "parcel", "profile", "ticket", "wallet",
    ),
}  # fmt: skip
"""For each document field: words that the nano model can spell, because its demonstrations contain them."""


def convert_to_camel(title: str) -> str:
    """Convert a title to a part of a class name: "Prime numbers" becomes "PrimeNumbers"."""
    words = re.findall(r"[A-Za-z]+", title)
    return "".join(word[:1].upper() + word[1:].lower() for word in words) or "Plain"


def draw_theme(draw: int, fields: Sequence[str]) -> str:
    """Draw a field and a name of two of its words, in place of a document's title: "science/SoundRust"."""
    random = Random(draw)
    field = random.choice(fields)
    return f"{field}/{convert_to_camel(' '.join(random.sample(NAMES[field], 2)))}"
