"""Environments of libraries that are not worth playing, each with the reason. Pools and suites leave them out."""

EXCLUDED: dict[str, dict[str, str]] = {
    "reasoning-gym": {
        "composite": "has no items without parameters",
        "game_of_life_halting": "its scorer pays for any text if the game halts",
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

The paper's authors released a copy of RLVE with repaired scorers in nine files. Five of these environments are listed
above. The other four (Cinema, LargestConvexPolygon, LargestRectangle_AmongPoints, QuadMagicItems) work here unrepaired.
Their scorers accept no answer if JSON has turned tuples of a problem's parameters into lists. Our parameters never pass
through JSON, because one process makes the problem and judges the answer.
"""
