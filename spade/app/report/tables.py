"""The tables of a page: the arms at a glance, rejected programs, suites, and the health of each run. Pure."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from replay.ledger.records import Reject
from spade.app.report.arms import Arm, compare_settings
from spade.app.report.charts import make_arm_curve
from spade.app.report.collect import SavedRun
from spade.app.report.drawing import format_figure, format_interval, name_letter
from spade.app.report.figures import Figure, RunFigures
from spade.app.report.transcript import cut_text
from spade.text import as_line, format_clock
from spade.waits import describe_all

MOST_REASONS = 16
MOST_EVENTS = 40
LONGEST_COMPLETION = 6_000
LONGEST_SETTING = 200
LONGEST_LINE = 500
MOST_EXAMPLES = 8


class ArmRow(NamedTuple):
    """An arm at a glance."""

    letter: str
    """The letter of the arm."""

    name: str
    """The name of the arm."""

    runs: int
    """Number of runs."""

    steps: str
    """The last learner step, or its range over the runs."""

    cells: tuple[tuple[str, str, str], ...]
    """For each figure: its newest value, interval and first value. "" for missing ones."""


class Rejections(NamedTuple):
    """Rejected programs of an arm."""

    name: str
    """The name of the arm."""

    attempts: int
    """Number of programs attempted."""

    rejected: int
    """Number of programs rejected."""

    rows: tuple[tuple[str, str, int, int], ...]
    """Stage, reason, count and share in percent, the most frequent first."""

    more: int
    """Number of reasons that are not shown."""

    examples: tuple[tuple[str, str, str], ...]
    """The newest example of each stage: stage, reason and completion."""


class SuiteRow(NamedTuple):
    """An evaluation that `spade eval` made of a run."""

    run: str
    """The run's name."""

    suite: str
    """Suite and protocol."""

    policy: str
    """The beginning of the policy's digest."""

    figure: str
    """The headline figure with its interval, or the reason why it is missing."""

    categories: tuple[tuple[str, str], ...]
    """Figures by category."""


class Health(NamedTuple):
    """A run's health."""

    name: str
    """The run's name."""

    state: str
    """The run's state in words."""

    verdict: str
    """A sentence that judges the run by its status."""

    facts: tuple[tuple[str, str], ...]
    """Facts by name."""

    restarts: tuple[tuple[str, int, str], ...]
    """Restarted or failed processes: name, number of restarts, and why the process ended last."""

    events: tuple[tuple[str, str, str], ...]
    """The last events: time, event, details."""

    more_events: int
    """Number of earlier events that are not shown."""

    waits: tuple[str, ...]
    """Descriptions of the waits between the run's processes."""


def make_arm_rows(figures: Sequence[Figure], arms: Sequence[Arm], runs: Sequence[RunFigures]) -> list[ArmRow]:
    """Return a row for each arm."""
    return [
        ArmRow(
            name_letter(place),
            arm.name,
            len(arm.members),
            _format_steps([runs[member] for member in arm.members]),
            tuple(_format_newest(figure, arm, runs) for figure in figures),
        )
        for place, arm in enumerate(arms)
    ]


def _format_steps(runs: Sequence[RunFigures]) -> str:
    last = [run.rows.steps[-1].learner_step if run.rows.steps else 0 for run in runs]
    return f"{min(last):,}" if min(last) == max(last) else f"{min(last):,} to {max(last):,}"


def _format_newest(figure: Figure, arm: Arm, runs: Sequence[RunFigures]) -> tuple[str, str, str]:
    curve = make_arm_curve(figure, arm, runs)
    if not curve:
        return "", "", ""
    value, bracket, interval = format_interval(curve[-1], figure.share).partition(" (")
    first = f"at step {curve[0].step:,.0f}: {format_figure(curve[0].value, figure.share)}" if len(curve) > 1 else ""
    return value, (bracket + interval).strip(), first


def make_rejections(name: str, runs: Sequence[SavedRun]) -> Rejections:
    """Tabulate the rejected programs of an arm, the most frequent reasons first."""
    counts: Counter[tuple[str, str]] = Counter()
    examples: dict[str, Reject] = {}
    for run in runs:
        counts.update(run.designs.reasons)
        examples |= run.designs.examples
    rejected = counts.total()
    rows = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return Rejections(
        name,
        rejected + sum(len(run.designs.environments) for run in runs),
        rejected,
        tuple(
            (_format_short(stage), reason, count, 100 * count // rejected)
            for (stage, reason), count in rows[:MOST_REASONS]
        ),
        len(rows[MOST_REASONS:]),
        tuple(
            (_format_short(stage), _format_short(example.reason), cut_text(example.completion, LONGEST_COMPLETION))
            for stage, example in sorted(examples.items())[:MOST_EXAMPLES]
        ),
    )


def list_suites(run: SavedRun) -> list[SuiteRow]:
    """List the evaluations that `spade eval` kept of a run."""
    rows = []
    for kept in run.evaluations:
        summary, share = kept.summary, None if kept.summary is None else kept.summary.headline
        figure = (
            f"{share.mean:.3f} ({share.low:.3f} to {share.high:.3f}), {share.items} items"
            if share is not None
            else ("not finished yet" if summary is None else f"none: {summary.why}")
        )
        categories = () if summary is None else tuple((n, f"{s.mean:.3f}") for n, s in summary.categories.items() if n)
        suite = f"{kept.rules.suite}@{kept.rules.protocol.name}"
        rows.append(SuiteRow(run.name, suite, kept.rules.policy[:8], figure, categories))
    return rows


def describe_health(run: SavedRun) -> Health:
    """Describe the health of a run, from its last status and its events."""
    status, events = run.status, run.rows.events
    processes = () if status is None else status.processes
    ill = [each for each in processes if each.restarts or each.state == "failed"]
    return Health(
        run.name,
        run.state,
        run.verdict,
        _list_facts(run),
        tuple((_format_short(each.name), each.restarts, _format_short(each.detail)) for each in ill[:MOST_EVENTS]),
        tuple(
            (
                format_clock(event.elapsed_s),
                _format_short(event.event),
                _format_short(_describe_event(event.why, event.changed)),
            )
            for event in events[-MOST_EVENTS:]
        ),
        max(len(events) - MOST_EVENTS, 0),
        () if status is None else tuple(map(_format_short, describe_all(status.waits, status.processes)[:MOST_EVENTS])),
    )


def _list_facts(run: SavedRun) -> tuple[tuple[str, str], ...]:
    facts: list[tuple[str, str]] = []
    if (status := run.status) is not None:
        counts, traffic = status.counts, status.traffic
        faults = sum(process.gauges.get("request_faults", 0) for process in status.processes)
        facts += [
            ("time up", format_clock(status.elapsed_s)),
            ("learner steps", f"{status.learner_step:,}"),
            ("plays", f"{counts.plays:,}"),
            ("plays/s", f"{traffic.plays_per_s:.1f}"),
            ("environments", f"{counts.environments:,}"),
            ("wasted, agent", f"{counts.wasted_share_agent:.1%}"),
            ("wasted, designer", f"{counts.wasted_share_designer:.1%}"),
            ("policy lag", "–" if counts.lag_mean is None else f"{counts.lag_mean:.2f}"),
            ("void plays", f"{counts.voids:,}"),
            ("expired leases", f"{counts.expired_leases:,}"),
            ("late plays", f"{counts.late_plays:,}"),
            ("quarantined", f"{counts.quarantined:,}"),
            ("failed audits", f"{counts.audit_findings:,}"),
            ("dropped messages", f"{traffic.dropped_messages:,}"),
            ("unforeseen errors", f"{faults:,.0f}"),
            ("restarts", f"{sum(process.restarts for process in status.processes):,}"),
        ]
        if status.waiting_for:
            facts.append(("waits for", _format_short(status.waiting_for)))
    if (record := run.record) is not None:
        facts += [("SPADE", record.spade), ("Python", record.python), ("platform", record.platform)]
    return tuple(facts)


def _format_short(text: str) -> str:
    return as_line(text, LONGEST_LINE)


def _describe_event(why: str, changed: dict[str, tuple[str, str]]) -> str:
    told = [f"{setting}: {before} → {now}" for setting, (before, now) in changed.items()]
    return "; ".join([*([why] if why else []), *told])


def compare_arms(arms: Sequence[Arm], runs: Sequence[SavedRun]) -> dict[str, list[str]]:
    """Return the settings that differ between arms, with the value in the first run of each arm.

    Returns {} for a single arm, or if the settings of a first run cannot be read.
    """
    configs = {arm.name: config for arm in arms if (config := runs[arm.members[0]].config) is not None}
    if len(configs) < 2 or len(configs) < len(arms):
        return {}
    return {key: [_format_value(value) for value in values] for key, values in compare_settings(configs).items()}


def _format_value(value: object) -> str:
    if value is None:
        return "left out"
    spaced = msgspec.json.format(msgspec.json.encode(value), indent=0)  # with spaces, a long list wraps on the page
    return cut_text(spaced.decode(), LONGEST_SETTING)
