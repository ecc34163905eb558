"""The tokens of a trajectory, turn by turn, each sampled token with its log-probability and policy version. Pure."""

import math
from itertools import islice
from typing import NamedTuple

import numpy as np

from spade.app.report.transcript import Decode, cut_text
from spade.codec import split_runs
from spade.protocol import Trajectory

MOST_TOKENS = 4_000
LONGEST_READ = 6_000
PROBABILITIES = (0.99, 0.9, 0.5, 0.1, 0.01)
"""Probabilities at which the shade of a token changes. Tokens of shade 0 are the most probable."""
HUES = 8
"""Number of colours for policy versions."""


class Token(NamedTuple):
    """A sampled token."""

    text: str
    """Its text. A line break is visible."""

    shade: int
    """Its shade by probability."""

    hue: int
    """Its colour by policy version."""

    says: str
    """Its log-probability and version in words."""


class StripTurn(NamedTuple):
    """Consecutive tokens that the model read, or that it sampled."""

    read: str
    """The text that the model read, possibly cut. The loss masks its tokens."""

    sampled: tuple[Token, ...]
    """The tokens that the model sampled."""


class TokenStrip(NamedTuple):
    """The tokens of a trajectory."""

    turns: tuple[StripTurn, ...]
    """The turns in order."""

    versions: tuple[tuple[int, int], ...]
    """The policy versions, each with its colour."""

    left_out: int
    """Number of sampled tokens that are not shown."""


def make_strip(trajectory: Trajectory, decode: Decode) -> TokenStrip:
    """Return the turns of a trajectory, with only its first MOST_TOKENS sampled tokens."""
    versions = sorted({version for version, _ in trajectory.versions})
    hues = {version: place % HUES for place, version in enumerate(versions)}
    by_token = [version for version, count in trajectory.versions for _ in range(count)]
    known = zip(np.frombuffer(trajectory.logprobs, "<f4").tolist(), by_token, strict=True)
    turns, room = list[StripTurn](), MOST_TOKENS
    for sampled, ids in split_runs(trajectory):
        if not sampled:
            turns.append(StripTurn(cut_text(decode(ids).strip("\n"), LONGEST_READ), ()))
            continue
        shown = zip(ids[:room], list(islice(known, len(ids))), strict=False)
        turns.append(StripTurn("", tuple(_make_token(decode([id]), hues, *each) for id, each in shown)))
        room = max(room - len(ids), 0)
    kept = tuple(turn for turn in turns if turn.read or turn.sampled)
    left_out = trajectory.sampled - sum(len(turn.sampled) for turn in kept)
    return TokenStrip(kept, tuple(hues.items()), left_out)


def _make_token(text: str, hues: dict[int, int], logprob: float, version: int) -> Token:
    probability = math.exp(min(logprob, 0.0))
    shade = sum(probability < bound for bound in PROBABILITIES)
    says = f"log-probability {logprob:.3f}, probability {probability:.1%}, version {version}"
    return Token(text.replace("\n", "⏎\n") or "·", shade, hues[version], says)
