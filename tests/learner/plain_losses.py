"""Every loss again with floats and loops alone, a sequence at a time, as its source writes it."""

import math

import numpy as np


def clip(value, low, high):
    return max(low, min(value, high))


def pessimistic(ratio, advantage, settings):
    """PPO's min, and whether the clipped side of it held."""
    inside = clip(ratio, 1 - settings.clip_low, 1 + settings.clip_high)
    return min(ratio * advantage, inside * advantage), inside * advantage < ratio * advantage


def plain(member, settings, frozen=None):
    """Loss and flags (clipped, truncated, masked) of each token of one sequence.

    member: (current, old, behaviour) log-probabilities, a list each, and the advantage.
    frozen: the current log-probabilities that a stop-gradient holds, for finite differences of the others.
    """
    current, old, behaviour, advantage = member
    frozen = current if frozen is None else frozen
    rows = []
    whole = math.exp(sum(old) - sum(behaviour))
    geometric = (math.exp(sum(current)) / math.exp(sum(behaviour))) ** (1 / len(current))
    for now, held, before, sampled in zip(current, frozen, old, behaviour, strict=True):
        w = math.exp(before) / math.exp(sampled)
        gain, clipped = pessimistic(math.exp(now) / math.exp(before), advantage, settings)
        match settings.kind:
            case "tis":
                rows.append((-min(w, settings.cap) * gain, clipped, w > settings.cap, False))
            case "icepop":
                kept = 0.5 <= w <= 5.0
                rows.append((-w * gain if kept else 0.0, clipped and kept, False, not kept))
            case "sequence_tis":
                rows.append((-min(whole, settings.cap) * gain, clipped, whole > settings.cap, False))
            case "cispo":
                ratio = math.exp(held) / math.exp(sampled)
                rows.append((-min(ratio, settings.cap) * advantage * now, False, ratio > settings.cap, False))
            case "gspo":
                gain, clipped = pessimistic(geometric, advantage, settings)
                rows.append((-gain, clipped, False, False))
    return rows


def plain_mean(members, weights, settings):
    """The objective of a batch: what `settings.aggregation` averages, a weight a sequence."""
    sums = [
        weight * sum(row[0] for row in plain(member, settings))
        for member, weight in zip(members, weights, strict=True)
    ]  # fmt: skip
    lengths = [len(member[0]) for member in members]
    if settings.aggregation == "token":
        return sum(sums) / sum(lengths)
    return float(np.mean([one / length for one, length in zip(sums, lengths, strict=True)]))
