"""The figures that the records of an evaluation come to. Pure.

Each scheduled sample counts: one that ended in an error is wrong, so that no fault makes the denominator smaller.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec

from spade.estimates import Difference, ItemTally, Share, by_category, difference, share
from spade.evaluations.record import ERRORS, SampleRecord, Scheduled

MOST_FOREIGN_ERRORS = 0.01
"""Share of samples that may end in errors that are not the policy's; with more there is no headline."""


class Summary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The figures of an evaluation.

    headline    pass@1 over all items; None where `why` says why there is none
    categories  pass@1 of each category, of those items that have all of their samples
    means       the mean of each such item, for paired differences
    """

    scheduled: int
    played: int
    correct: int
    headline: Share | None
    why: str
    categories: dict[str, Share]
    errors: dict[str, int]
    read: int
    sampled: int
    means: dict[str, float]


def summarised(records: Iterable[SampleRecord], scheduled: Scheduled) -> Summary:
    """The summary of records in any order, at most one of each sample."""
    right: Counter[str] = Counter()
    played: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    read = sampled = 0
    for record in records:
        played[record.item] += 1
        right[record.item] += record.correct
        read, sampled = read + record.read, sampled + record.sampled
        if record.error is not None:
            errors[record.error] += 1
    whole = {item: ItemTally(n, right[item]) for item in scheduled.items if (n := played[item]) == scheduled.samples}
    why = _no_headline(played.total(), errors, len(scheduled))
    return Summary(
        scheduled=len(scheduled),
        played=played.total(),
        correct=right.total(),
        headline=None if why else share(list(whole.values())),
        why=why,
        categories=by_category(whole, scheduled.items),
        errors=dict(sorted(errors.items())),
        read=read,
        sampled=sampled,
        means={item: tally.mean for item, tally in whole.items()},
    )


def compared(now: Summary, before: Summary) -> Difference | None:
    """The paired difference over the items that both have whole."""
    return difference(now.means, before.means)


def _no_headline(played: int, errors: Counter[str], scheduled: int) -> str:
    """The reason why there is no headline; "" where there is one."""
    if played < scheduled:
        return f"{scheduled - played} of {scheduled} samples are not played yet"
    foreign = sum(errors[kind] for kind, own in ERRORS.items() if not own)
    if foreign > MOST_FOREIGN_ERRORS * scheduled:
        kinds = ", ".join(f"{kind} {errors[kind]}" for kind, own in ERRORS.items() if not own and errors[kind])
        return f"{foreign} of {scheduled} samples ended in errors that are not the policy's ({kinds})"
    if errors["unfit"] == scheduled:
        return "no prompt fits the model's context"
    return ""
