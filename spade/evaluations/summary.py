"""The figures of an evaluation, computed from its records. Pure.

Each scheduled sample counts. A sample that ended in an error is wrong, so that faults do not make the denominator
smaller.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from spade.errors import ConfigError
from spade.estimates import Difference, ItemTally, Share, compute_difference, compute_share, group_by_category
from spade.evaluations.record import ERRORS, NO_PROMPT, SampleRecord, SampleSchedule
from spade.evaluations.rules import Rules
from spade.text import as_line

MOST_FOREIGN_ERRORS = 0.01
"""Share of samples that may end in errors not caused by the policy. A larger share gives no headline."""

_NAMED_ITEMS = 5  # differing items that an error names


class Summary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The figures of an evaluation. A whole item is one with all of its samples played."""

    scheduled: int
    """Scheduled samples."""

    played: int
    """Played samples."""

    correct: int
    """Right samples."""

    headline: Share | None
    """pass@1 over all items, or None."""

    why: str
    """The reason for a missing headline, or ""."""

    categories: dict[str, Share]
    """pass@1 of each category, over its whole items."""

    errors: dict[str, int]
    """Number of samples that ended in each kind of error."""

    read: int
    """Tokens that the model read."""

    sampled: int
    """Tokens that the model sampled."""

    means: dict[str, float]
    """Share of right samples of each whole item (an item with all its samples played)."""

    members: dict[str, str] = {}
    """Category of each whole item. Empty in a summary of an older version."""

    prompts: dict[str, tuple[str, ...]] = {}
    """Digests of each whole item's prompts, sorted. Empty in a summary of an older version."""


def summarise_records(records: Iterable[SampleRecord], scheduled: SampleSchedule) -> Summary:
    """Summarise records in any order, at most one for each sample."""
    right: Counter[str] = Counter()
    played: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    prompts: defaultdict[str, set[str]] = defaultdict(set)
    read = sampled = 0
    for record in records:
        played[record.item] += 1
        right[record.item] += record.correct
        read, sampled = read + record.read, sampled + record.sampled
        if record.prompt != NO_PROMPT:
            prompts[record.item].add(record.prompt)
        if record.error is not None:
            errors[record.error] += 1
    whole = {item: ItemTally(n, right[item]) for item in scheduled.items if (n := played[item]) == scheduled.samples}
    why = _explain_no_headline(played.total(), errors, len(scheduled))
    return Summary(
        scheduled=len(scheduled),
        played=played.total(),
        correct=right.total(),
        headline=None if why else compute_share(list(whole.values())),
        why=why,
        categories=group_by_category(whole, scheduled.items),
        errors=dict(sorted(errors.items())),
        read=read,
        sampled=sampled,
        means={item: tally.mean for item, tally in whole.items()},
        members={item: scheduled.items[item] for item in whole},
        prompts={item: tuple(sorted(prompts[item])) for item in whole if item in prompts},
    )


def compare_summaries(now: Summary, before: Summary) -> Difference | None:
    """Return the paired difference over the items that are whole on both sides."""
    return compute_difference(now.means, before.means)


def refuse_other_prompts(rules: Rules, now: Summary, before: Summary) -> None:
    """Raise ConfigError if an item asked the two policies different questions.

    In some suites the prompts contain the words of a simulated user, which may differ. Such a suite is not checked.
    """
    if "user" in rules.conditions:
        return
    other = _list_other_prompts(now.prompts, before.prompts)
    if other:
        names = ", ".join(as_line(name, 60) for name in other[:_NAMED_ITEMS])
        more = f" and {len(other) - _NAMED_ITEMS} more" if len(other) > _NAMED_ITEMS else ""
        raise ConfigError(
            f"suite {as_line(rules.suite, 80)}: {len(other)} of {len(now.means)} items have other prompts in the other "
            f"evaluation ({names}{more}); move the folder of the older evaluation away and play it again"
        )


def _list_other_prompts(one: Mapping[str, Sequence[str]], other: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the items with differing prompts. An item without a known prompt does not differ."""
    return sorted(item for item in one.keys() & other.keys() if tuple(one[item]) != tuple(other[item]))


def _explain_no_headline(played: int, errors: Counter[str], scheduled: int) -> str:
    """Return the reason why the headline is missing, or "" if there is a headline."""
    if played < scheduled:
        return f"{scheduled - played} of {scheduled} samples are not played yet"
    foreign = sum(errors[kind] for kind, own in ERRORS.items() if not own)
    if foreign > MOST_FOREIGN_ERRORS * scheduled:
        kinds = ", ".join(f"{kind} {errors[kind]}" for kind, own in ERRORS.items() if not own and errors[kind])
        return f"{foreign} of {scheduled} samples ended in errors that are not the policy's ({kinds})"
    if errors["unfit"] == scheduled:
        return "no prompt fits the model's context"
    return ""
