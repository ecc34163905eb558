"""Evaluations as text."""

from collections.abc import Iterable, Iterator

import msgspec

from spade.estimates import Difference, Share
from spade.evaluations import KeptEvaluation, Rules, Summary
from spade.text import line

NOT_PINNED = "not pinned"
"""The condition `policy` of a server of others."""

SELF = "self"
"""The condition `user` of a policy that plays the users of a harness itself."""

_NOTES = {
    ("user", SELF): "the policy played the users, too, so that these figures compare with no others",
    ("policy", NOT_PINNED): "the policy is a server's, which may change it; its digest here is of its address and name",
}
_DIGITS = 16  # of a digest
_NAME = 60  # characters of a name


class MeasuredSuite(msgspec.Struct, frozen=True):
    """One evaluation of a policy, and the other one that it is held against.

    why   there is no difference, though one was asked for
    step  learner step of the policy, where it was asked for as one of a run's
    """

    folder: str
    rules: Rules
    policy: str
    summary: Summary
    against: "MeasuredSuite | None" = None
    difference: Difference | None = None
    why: str = ""
    step: int | None = None


def table(measured: Iterable[MeasuredSuite]) -> str:
    """The measurements of a command, suite by suite; the paired difference leads where there is one."""
    return "\n\n".join("\n".join(_told(each)) for each in measured)


def _told(each: MeasuredSuite) -> Iterator[str]:
    yield _title(each.rules)
    if each.difference is not None:
        yield f"  difference  {_difference(each.difference)}"
    elif each.why:
        yield f"  difference  none: {each.why}"
    yield f"  {line(each.policy, _NAME):<10}  {_headline(each.summary)}"
    if each.against is not None:
        yield f"  {line(each.against.policy, _NAME):<10}  {_headline(each.against.summary)}"
    yield from _errors(each.summary)
    yield from notes(each.rules)
    yield f"  records in {line(each.folder)}"


def row(kept: KeptEvaluation) -> str:
    """An evaluation in one line."""
    rules = kept.rules
    name, policy = f"{line(rules.suite, _NAME)}@{rules.protocol.name}", line(rules.policy[:_DIGITS])
    return f"{name:<28} {policy} seed {rules.seed}  {_state(kept)}"


def sheet(kept: KeptEvaluation) -> str:
    """An evaluation with its categories, errors and rules."""
    return "\n".join(_sheet(kept))


def _sheet(kept: KeptEvaluation) -> Iterator[str]:
    rules, protocol = kept.rules, kept.rules.protocol
    yield _title(rules)
    yield f"  headline  {_state(kept)}"
    if kept.summary is not None:
        for name, share in kept.summary.categories.items():
            if name:
                yield f"  {line(name, _NAME):<30} {_share(share)}"
        yield from _errors(kept.summary)
        yield f"  tokens    {kept.summary.read} read, {kept.summary.sampled} sampled"
    sampling = protocol.sampling
    yield (
        f"  rules     {rules.items} items × {protocol.samples}, T {sampling.temperature:g}, top-p {sampling.top_p:g}, "
        f"top-k {sampling.top_k}, {sampling.max_tokens} tokens a turn, {protocol.turns} turns, "
        f"read by {line(protocol.grading, _NAME)}, seed {rules.seed}"
    )
    known = {**rules.libraries, **rules.data, **rules.conditions}
    if known:
        yield f"  of        {', '.join(f'{line(name, _NAME)} {line(value, 80)}' for name, value in known.items())}"
    yield from notes(rules)
    yield f"  records in {line(str(kept.folder))}"


def notes(rules: Rules) -> Iterator[str]:
    """Tell the notes without which a figure misleads its reader."""
    for condition, note in _NOTES.items():
        if condition in rules.conditions.items():
            yield f"  note      {note}"


def _title(rules: Rules) -> str:
    return f"{line(rules.suite, _NAME)}@{rules.protocol.name}, policy {line(rules.policy[:_DIGITS])}"


def _state(kept: KeptEvaluation) -> str:
    return "it was not ended yet" if kept.summary is None else _headline(kept.summary)


def _headline(summary: Summary) -> str:
    return f"none: {line(summary.why)}" if summary.headline is None else _share(summary.headline)


def _share(share: Share) -> str:
    error = "" if share.error is None else f" ± {share.error:.3f}"
    interval = f"95 % from {share.low:.3f} to {share.high:.3f}"
    return f"{share.mean:.3f}{error} ({interval}), {share.items} items, {share.samples} samples"


def _difference(found: Difference) -> str:
    error = "" if found.error is None else f" ± {found.error:.3f}"
    interval = "" if found.low is None else f" (95 % from {found.low:+.3f} to {found.high:+.3f})"
    return f"{found.mean:+.3f}{error}{interval}, {found.items} items: {found.up} up, {found.down} down"


def _errors(summary: Summary) -> Iterator[str]:
    if summary.errors:
        yield f"  errors    {', '.join(f'{line(kind, _NAME)} {count}' for kind, count in summary.errors.items())}"
