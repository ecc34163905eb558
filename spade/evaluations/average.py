"""Average over suites, with columns as in the paper's tables. Pure.

A column is a suite, or a category of Reasoning-Gym's hard set. The column of an agent suite is the unweighted mean over
the suite's categories, whatever the number of items in each.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from spade.errors import RunError
from spade.estimates import (
    Difference,
    ItemTally,
    Share,
    compute_all_of,
    compute_any_of,
    compute_average,
    compute_average_difference,
    compute_difference,
    compute_share,
    pass_share,
)
from spade.evaluations.folder import KeptEvaluation
from spade.evaluations.rules import refuse_other
from spade.evaluations.summary import Summary, refuse_other_prompts
from spade.text import as_line

TABLES: Mapping[str, tuple[str, ...]] = {
    "games": ("aime25", "aime26", "gpqa-diamond", "livecodebench-v6", "reasoning-gym-hard"),
    "tools": ("bfcl", "tau2", "acebench"),
}
"""The suites of the paper's two tables of results, by domain."""

SPLIT = ("reasoning-gym-hard",)
"""Suites with a column for each category."""

BY_CATEGORY = ("bfcl", "tau2", "acebench")
"""Suites with one column, the unweighted mean over categories."""


class PassShares(msgspec.Struct, frozen=True):
    """The estimates for k samples of an item."""

    any_of: float
    """pass@k: at least one of k samples is right."""

    all_of: float
    """pass^k: all of k samples are right."""


class AverageColumn(msgspec.Struct, frozen=True):
    """One column of the average."""

    name: str
    """Name of the suite, followed by the category if each category has a column."""

    share: Share
    """pass@1 of the column."""

    passes: dict[int, PassShares]
    """pass@k and pass^k, by k. Empty if the protocol has one sample of each item."""

    difference: Difference | None = None
    """The paired difference to the base, if there is one."""


class SuiteAverage(msgspec.Struct, frozen=True):
    """The columns of several suites and their unweighted mean."""

    policy: str
    """Digest of the policy."""

    base: str
    """Digest of the base, the policy to compare with. "" without a base."""

    conditions: dict[str, dict[str, str]]
    """Conditions of each evaluation (`Rules.conditions`), by suite."""

    columns: list[AverageColumn]
    """The columns."""

    share: Share
    """Unweighted mean over columns."""

    difference: Difference | None = None
    """Paired difference to the base, if every column has one."""


def average_suites(now: Sequence[KeptEvaluation], before: Sequence[KeptEvaluation] | None = None) -> SuiteAverage:
    """Return the average over evaluations of different suites.

    `before` has the evaluations of the base, with the same suites in the same order. Raises RunError if a headline is
    missing, ConfigError if two evaluations of one suite are not comparable.
    """
    columns = [
        column
        for place, each in enumerate(now)
        for column in _make_columns(each, before[place] if before is not None else None)
    ]
    differences = [column.difference for column in columns if column.difference is not None]
    total = compute_average_difference(differences) if len(differences) == len(columns) else None
    return SuiteAverage(
        now[0].rules.policy,
        before[0].rules.policy if before else "",
        {each.rules.suite: dict(each.rules.conditions) for each in now},
        columns,
        compute_average([column.share for column in columns]),
        total,
    )


def compute_passes(summary: Summary, samples: int, items: Sequence[str] | None = None) -> dict[int, PassShares]:
    """Return pass@k and pass^k for k = 2, 4, 8 … and `samples`, over `items`, by default over all whole items."""
    chosen = summary.means if items is None else items
    tallies = [(samples, round(summary.means[item] * samples)) for item in chosen]
    powers = [1 << power for power in range(1, samples.bit_length())]
    sizes = sorted({*powers, samples}) if samples > 1 and tallies else []
    return {
        k: PassShares(pass_share(compute_any_of, tallies, k), pass_share(compute_all_of, tallies, k)) for k in sizes
    }


def _make_columns(now: KeptEvaluation, before: KeptEvaluation | None) -> Iterator[AverageColumn]:
    summary, base = _require_finished(now), None
    if before is not None:
        refuse_other(now.rules, before.rules)
        base = _require_finished(before)
        refuse_other_prompts(now.rules, summary, base)
    suite, samples = now.rules.suite, now.rules.protocol.samples
    for name, cells in _list_cells(now, summary):
        shares = [
            compute_share([ItemTally(samples, round(summary.means[item] * samples)) for item in cell]) for cell in cells
        ]
        found = [compute_passes(summary, samples, cell) for cell in cells]
        mean = {
            k: PassShares(
                *(sum(each) / len(found) for each in zip(*((p[k].any_of, p[k].all_of) for p in found), strict=True))
            )
            for k in found[0]
        }
        yield AverageColumn(
            f"{suite}{name and f' {name}'}",
            compute_average(shares),
            mean,
            _compute_difference(summary, base, cells) if base else None,
        )


def _compute_difference(now: Summary, before: Summary, cells: Sequence[Sequence[str]]) -> Difference | None:
    """Return the mean over cells of the paired differences."""
    pairs = [compute_difference({item: now.means[item] for item in cell}, before.means) for cell in cells]
    found = [each for each in pairs if each is not None]
    return compute_average_difference(found) if len(found) == len(cells) else None


def _list_cells(kept: KeptEvaluation, summary: Summary) -> Iterator[tuple[str, list[list[str]]]]:
    """Yield the name of each column within the suite, with the column's items by category.

    A column has one or more categories.
    """
    suite = kept.rules.suite
    if suite not in (*SPLIT, *BY_CATEGORY):
        yield "", [list(summary.means)]
        return
    if not summary.members:
        raise RunError(
            f"{kept.folder}: its summary is of an older version, without categories; run the same `spade eval` again, "
            "which makes it anew from the records"
        )
    members: dict[str, list[str]] = {}
    for item, category in summary.members.items():
        members.setdefault(category, []).append(item)
    if suite in SPLIT:
        yield from ((name, [items]) for name, items in members.items())
    else:
        yield "", list(members.values())


def _require_finished(kept: KeptEvaluation) -> Summary:
    """Return the summary. Raises RunError if its headline is missing."""
    summary = kept.summary
    if summary is None or summary.headline is None:
        why = "it has not ended yet" if summary is None else as_line(summary.why)
        raise RunError(f"{kept.folder}: has no headline ({why}); run the same `spade eval` to continue it")
    return summary
