"""Environments of libraries that are not worth playing, each with its reason: data for pools and suites."""

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
}
"""By library, the environment's name and the reason.

Nine files of RLVE differ in the copy of it that the paper's authors released, each by a mended scorer. Five are those
above. The other four (Cinema, LargestConvexPolygon, LargestRectangle_AmongPoints, QuadMagicItems) take a list for
another answer than a tuple, so they count no answer to a problem whose parameters went through JSON. Ours never do: a
problem lives in one process from its making to its verdict.
"""
