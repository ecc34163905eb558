"""Environments of libraries that are not worth playing, each with its reason: data for pools and suites."""

EXCLUDED: dict[str, dict[str, str]] = {
    "reasoning-gym": {
        "composite": "has no items without parameters",
        "game_of_life_halting": "its scorer pays any text where the game halts",
    },
    "rlve": {
        "PolyaModel": "its scorer reads the marks as part of the answer, so that no answer counts",
        "PowerCycle": "its scorer fails under one of its two ways to reward; mended upstream after 0.0.1",
        "FBI_BinaryTree": "its scorer fails under one of its two ways to reward; mended upstream after 0.0.1",
        "SkaRockGarden": "its scorer fails under one of its two ways to reward; mended upstream after 0.0.1",
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
"""By library, the environment's name and the reason."""
