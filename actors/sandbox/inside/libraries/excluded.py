"""Environments of libraries that are not worth playing, each with the reason. Pools and suites leave them out."""

EXCLUDED: dict[str, dict[str, str]] = {
    "reasoning-gym": {
        "composite": "has no items without parameters",
        "game_of_life_halting": "its scorer pays any text where the game halts",
    },
    "rlve": {
        "PolyaModel": "its scorer reads the marks as part of the answer, so that no answer counts",
        "PowerCycle": "its scorer fails under one of its two ways to reward",
        "FBI_BinaryTree": "its scorer fails under one of its two ways to reward",
        "SkaRockGarden": "its scorer fails under one of its two ways to reward",
        "SmallestBinaryMultiple": "its scorer fails under one of its two ways to reward",
    },
    "gem": {
        "FifteenPuzzle-v0-random": "crashes before it begins",
        "Crosswords-v0-random": "crashes before it begins",
    },
    "gymnasium": {
        "Blackjack-v1": "cannot draw itself as text",
        "Taxi-v3": "withdrawn",
    },
    "verifiers": {},
}
"""For each library, the environment's name and the reason.

In the copy of RLVE that the paper's authors released, nine files differ from the original by a repaired scorer. Five of
them are listed above. The original of the other four (Cinema, LargestConvexPolygon, LargestRectangle_AmongPoints,
QuadMagicItems) does not accept a list for a tuple, so it accepts no answer to a problem whose parameters went through
JSON. Our parameters never do: a problem lives in one process from its making to its verdict.
"""
