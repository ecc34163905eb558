"""Format evaluations as text."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from replay.inspect.journal import EvaluationRow
from spade.estimates import Difference, Share
from spade.evaluations import KeptEvaluation, PassShares, Rules, SuiteAverage, Summary, compute_passes
from spade.text import SHORT_DIGEST, as_line

NOT_PINNED = "not pinned"
"""The value of the condition `policy` if a foreign server samples."""

SELF = "self"
"""The value of the condition `user` if the policy also plays the simulated users of a harness."""

_NOTES = {
    ("user", SELF): "the policy also played the users, so these figures are not comparable with others",
    ("policy", NOT_PINNED): "a server may change its policy; the digest is a hash of its address and model name",
}
_OF_A_SUITE = ("context_tokens", "user")
"""Conditions that differ between suites, because the suites' protocols differ."""
_NAME = 60  # characters of a name


class MeasuredSuite(msgspec.Struct, frozen=True):
    """One evaluation of a policy, and the evaluation it is compared with."""

    folder: str
    """Folder of the records."""

    rules: Rules
    """Rules of the evaluation."""

    policy: str
    """Name of the policy."""

    summary: Summary
    """Result of the evaluation."""

    against: "MeasuredSuite | None" = None
    """The evaluation with which this one is compared, or None."""

    difference: Difference | None = None
    """The paired difference to `against`, or None without a comparison."""

    why: str = ""
    """The reason why a requested difference is missing, or ""."""

    step: int | None = None
    """Learner step after which the policy was made, or None if the step is unknown."""


def format_table(measured: Iterable[MeasuredSuite]) -> str:
    """Tabulate measurements, suite by suite. The paired difference, if any, comes before the two results."""
    return "\n\n".join("\n".join(_describe_measured(each)) for each in measured)


def _describe_measured(each: MeasuredSuite) -> Iterator[str]:
    yield _format_title(each.rules)
    if each.difference is not None:
        yield f"  difference  {_format_difference(each.difference)}"
    elif each.why:
        yield f"  difference  none: {each.why}"
    yield f"  {as_line(each.policy, _NAME):<10}  {_format_headline(each.summary)}"
    if each.against is not None:
        yield f"  {as_line(each.against.policy, _NAME):<10}  {_format_headline(each.against.summary)}"
    yield from _format_errors(each.summary)
    yield from list_notes(each.rules)
    yield f"  records in {as_line(each.folder)}"


def format_row(kept: KeptEvaluation) -> str:
    """Describe an evaluation in one line."""
    rules = kept.rules
    name, policy = f"{as_line(rules.suite, _NAME)}@{rules.protocol.name}", as_line(rules.policy[:SHORT_DIGEST])
    return f"{name:<28} {policy} seed {rules.seed}  {_describe_state(kept)}"


def format_own_row(own: EvaluationRow) -> str:
    """Describe in one line an evaluation that a run's own evaluator measured."""
    step = f"step {own.step}"
    return f"{_format_own_name(own):<28} {step:<{SHORT_DIGEST}}         {_format_own_figure(own)}"


def format_own_sheet(measured: Sequence[EvaluationRow]) -> str:
    """Describe all evaluations that a run's own evaluator made on one suite, and the newest one by category."""
    newest = measured[-1]
    rows = [f"  step {own.step:<8} {_format_own_figure(own)}" for own in measured]
    parts = [f"  {as_line(name, _NAME):<30} {share:.3f}" for name, share in newest.categories.items() if name]
    return "\n".join(
        [_format_own_name(newest), *rows, *([f"  by category, after step {newest.step}"] if parts else []), *parts]
    )


def _format_own_name(own: EvaluationRow) -> str:
    return f"{as_line(own.suite, _NAME) or 'programs of a folder'}, in the run"


def _format_own_figure(own: EvaluationRow) -> str:
    error = "" if own.error is None else f" ± {own.error:.3f}"
    return f"{own.win_rate:.3f}{error}, {own.plays} plays"


def format_sheet(kept: KeptEvaluation) -> str:
    """Describe an evaluation with its categories, errors and rules."""
    return "\n".join(_describe_sheet(kept))


def format_average_table(found: SuiteAverage) -> str:
    """Return the columns of an average and their mean in per cent, with the paired differences to the base."""
    return "\n".join(_describe_average(found))


def _describe_average(found: SuiteAverage) -> Iterator[str]:
    against = f", against {as_line(found.base[:SHORT_DIGEST])}" if found.base else ""
    yield f"policy {as_line(found.policy[:SHORT_DIGEST])}{against}, in per cent"
    rows = [
        *((as_line(each.name, _NAME), each.share, each.difference, each.passes) for each in found.columns),
        ("average", found.share, found.difference, {}),
    ]
    width = max(len(name) for name, *_ in rows)
    for name, share, difference, passes in rows:
        interval = f"(95 % from {100 * share.low:.1f} to {100 * share.high:.1f})"
        gain = "" if difference is None else _format_points(difference)
        counts = f"{share.items} items, {share.samples} samples"
        yield f"{name:<{width}}  {100 * share.mean:5.1f} {interval}{gain}, {counts}"
        yield from (f"{'':<{width}}  {each}" for each in _describe_passes(passes))
    for suite, conditions in found.conditions.items():
        yield from (f"note: {as_line(suite, _NAME)}: {note}" for note in _find_notes(conditions))
    yield from _find_mixed(found.conditions)


def _find_mixed(conditions: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield a note for each condition that differs between the suites. `conditions` has the conditions by suite."""
    names = dict.fromkeys(name for known in conditions.values() for name in known if name not in _OF_A_SUITE)
    for name in names:
        values = {suite: known[name] for suite, known in conditions.items() if name in known}
        if len(set(values.values())) > 1:
            told = ", ".join(f"{as_line(value, _NAME)} ({as_line(suite, _NAME)})" for suite, value in values.items())
            yield f"note: the suites were measured under different conditions: {as_line(name, _NAME)} is {told}"


def _format_points(found: Difference) -> str:
    interval = ""
    if found.low is not None and found.high is not None:
        interval = f" (95 % from {100 * found.low:+.1f} to {100 * found.high:+.1f})"
    return f"  {100 * found.mean:+.1f}{interval}: {found.up} up, {found.down} down"


def _describe_passes(passes: Mapping[int, PassShares]) -> Iterator[str]:
    if passes:
        yield "pass@k  " + ", ".join(f"{k}: {100 * each.any_of:.1f}" for k, each in passes.items())
        yield "pass^k  " + ", ".join(f"{k}: {100 * each.all_of:.1f}" for k, each in passes.items())


def _describe_sheet(kept: KeptEvaluation) -> Iterator[str]:
    rules, protocol = kept.rules, kept.rules.protocol
    yield _format_title(rules)
    yield f"  headline  {_describe_state(kept)}"
    if kept.summary is not None:
        for name, share in kept.summary.categories.items():
            if name:
                yield f"  {as_line(name, _NAME):<30} {_format_share(share)}"
        if kept.summary.headline is not None:
            yield from (f"  {each}" for each in _describe_passes(compute_passes(kept.summary, protocol.samples)))
        yield from _format_errors(kept.summary)
        yield f"  tokens    {kept.summary.read} read, {kept.summary.sampled} sampled"
    sampling = protocol.sampling
    yield (
        f"  rules     {rules.items} items × {protocol.samples}, T {sampling.temperature:g}, top-p {sampling.top_p:g}, "
        f"top-k {sampling.top_k}, {sampling.max_tokens} tokens a turn, {protocol.turns} turns, "
        f"read by {as_line(protocol.grading, _NAME)}, seed {rules.seed}"
    )
    known = {**rules.libraries, **rules.data, **rules.conditions}
    if known:
        told = ", ".join(f"{as_line(name, _NAME)} {as_line(value, 80)}" for name, value in known.items())
        yield f"  of        {told}"
    yield from list_notes(rules)
    yield f"  records in {as_line(str(kept.folder))}"


def list_notes(rules: Rules) -> Iterator[str]:
    """Yield the notes about figures that a reader could misunderstand."""
    yield from (f"  note      {note}" for note in _find_notes(rules.conditions))


def _find_notes(conditions: Mapping[str, str]) -> list[str]:
    return [note for condition, note in _NOTES.items() if condition in conditions.items()]


def _format_title(rules: Rules) -> str:
    return f"{as_line(rules.suite, _NAME)}@{rules.protocol.name}, policy {as_line(rules.policy[:SHORT_DIGEST])}"


def _describe_state(kept: KeptEvaluation) -> str:
    return "it has not ended yet" if kept.summary is None else _format_headline(kept.summary)


def _format_headline(summary: Summary) -> str:
    return f"none: {as_line(summary.why)}" if summary.headline is None else _format_share(summary.headline)


def _format_share(share: Share) -> str:
    error = "" if share.error is None else f" ± {share.error:.3f}"
    interval = f"95 % from {share.low:.3f} to {share.high:.3f}"
    return f"{share.mean:.3f}{error} ({interval}), {share.items} items, {share.samples} samples"


def _format_difference(found: Difference) -> str:
    error = "" if found.error is None else f" ± {found.error:.3f}"
    interval = "" if found.low is None else f" (95 % from {found.low:+.3f} to {found.high:+.3f})"
    return f"{found.mean:+.3f}{error}{interval}, {found.items} items: {found.up} up, {found.down} down"


def _format_errors(summary: Summary) -> Iterator[str]:
    if summary.errors:
        yield f"  errors    {', '.join(f'{as_line(kind, _NAME)} {count}' for kind, count in summary.errors.items())}"
