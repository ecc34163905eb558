"""The charts of a page: the figure of each chart, and its curve in one run. Pure."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from replay.inspect.journal import EvaluationRow, JournalRows, StepRow, find_comparable
from spade.app.report.curriculum import Design
from spade.app.report.series import Curve, Point, average_bins, thin
from spade.estimates import Interval, compute_clustered, compute_wilson_interval
from spade.estimates.intervals import Z
from spade.text import as_line

RETURN_BINS = 24
MOST_PARTS = 12
"""Most suites, skills or variants that have charts of their own."""
LONGEST_NAME = 60
_GLANCE = ("Unhinted win rate", "Hinted win rate", "Regret", "Learnable share", "Validity", "Diversity")


class RunFigures(NamedTuple):
    """The rows and the environments of one run, to draw."""

    rows: JournalRows
    """Rows of the run's journal."""

    designs: Sequence[Design] = ()
    """The environments with their learner steps."""


class Figure(NamedTuple):
    """One chart."""

    title: str
    """The chart's title."""

    says: str
    """The chart's explanation."""

    curve: Callable[[RunFigures], Curve]
    """Returns the curve of this figure in a run."""

    low: float | None = 0.0
    """The least possible value, or None if there is no bound."""

    high: float | None = None
    """The greatest possible value, or None if there is no bound."""

    share: bool = False
    """True if values are shares, shown in percent."""

    zero: bool = False
    """True if the axis has to include zero."""


class Chapter(NamedTuple):
    """Charts under one heading."""

    title: str
    """The heading."""

    figures: tuple[Figure, ...]
    """The charts."""


def _plot_row(
    title: str, name: str, says: str, error: str = "", share: bool = False, low: float | None = 0.0
) -> Figure:
    """Make a figure from the rows of learner steps. Its interval is 1.96 standard errors on each side."""
    high = 1.0 if share else None

    def curve(run: RunFigures) -> Curve:
        return thin(tuple(_read_points(run.rows.steps, name, error, (low, high))))

    return Figure(title, says, curve, low, high, share, zero=not (share or error))


def _plot_share(title: str, name: str, says: str, error: str = "") -> Figure:
    return _plot_row(title, name, says, error, share=True)


def _read_points(
    rows: Sequence[StepRow], name: str, error: str, bounds: tuple[float | None, float | None]
) -> Iterator[Point]:
    least, most = bounds
    for row in rows:
        value: float | None = getattr(row, name)
        if value is None:
            continue
        half: float | None = getattr(row, error) if error else None
        if half is None:
            yield Point(row.learner_step, value)
            continue
        low = value - Z * half if least is None else max(value - Z * half, min(least, value))
        high = value + Z * half if most is None else min(value + Z * half, max(most, value))
        yield Point(row.learner_step, value, low, high)


def _plot_held_outs(runs: Sequence[RunFigures]) -> tuple[Figure, ...]:
    """Make a figure of the held-out win rate for each suite. Win rates on different suites are not comparable."""
    suites = sorted({row.suite for run in runs for row in run.rows.evaluations})[:MOST_PARTS]
    return tuple(_plot_held_out(suite) for suite in suites or [""])


def _plot_held_out(suite: str) -> Figure:
    def curve(run: RunFigures) -> Curve:
        rows = find_comparable([row for row in run.rows.evaluations if row.suite == suite])
        return thin([Point(row.step, row.win_rate, *_compute_interval(row)) for row in rows])

    title = f"Held-out win rate{f' on {as_line(suite, LONGEST_NAME)}' if suite else ''}"
    says = "Unhinted, on items that the model never saw, the same ones each time."
    return Figure(title, says, curve, 0.0, 1.0, share=True)


def _compute_interval(row: EvaluationRow) -> Interval:
    if row.error is None:
        return compute_wilson_interval(row.win_rate, row.plays)
    return compute_clustered(row.win_rate, row.error, row.plays, row.plays)


def _plot_diversity(run: RunFigures) -> Curve:
    return thin([Point(row.step, row.share) for row in run.rows.diversities])


def _plot_returns(run: RunFigures) -> Curve:
    scored = ((each.step, each.environment.score) for each in run.designs)
    known = ((step, score.mean_return) for step, score in scored if score is not None)
    return average_bins(((step, value) for step, value in known if value is not None), RETURN_BINS)


_CHAPTERS = (
    Chapter(
        "Learning",
        (
            _plot_share(
                "Unhinted win rate", "win_rate_unhinted", "On the newest programs, unhinted.", "win_rate_error"
            ),
            _plot_share("Hinted win rate", "win_rate_hinted", "On the newest programs, hinted."),
            _plot_row("Regret", "regret", "Mean return with the hint − without.", "regret_error", low=None),
            Figure(
                "Return", "Unhinted, over the windows of the environments designed at a step.", _plot_returns, -1.0, 1.0
            ),
            _plot_share("Learnable share", "learnable_share", "Of the last slots, with a win rate of 20 % to 80 %."),
            _plot_row("Designer reward", "designer_reward", "Mean over the last slots.", low=None),
        ),
    ),
    Chapter(
        "Designs",
        (
            _plot_share("Validity", "validity", "Share of the last 100 attempts that pass admission."),
            Figure("Diversity", "Vendi score of the newest programs ÷ their number.", _plot_diversity, 0.0, 1.0),
            _plot_share("Similarity", "similarity", "Of a program to the most similar one of the memory."),
            _plot_share("No variance", "zero_variance_share", "Share of chunks with equal returns, so not trained."),
            _plot_row("Lines", "program_lines", "Of a program."),
            _plot_row("Hidden variables", "hidden_variables", "Of a program."),
            _plot_row("Reward levels", "reward_levels", "Distinct rewards that an environment hands out."),
            _plot_share("Revealing share", "revealing_share", "Programs whose first observation reveals the method."),
            _plot_row("Turns", "turns", "Of an unhinted episode."),
            _plot_row("Response", "response_tokens", "Tokens that are sampled in a turn, unhinted."),
            _plot_row("Lowest level", "level_low", "Of a program's window of levels, mean over the programs."),
            _plot_row("Highest level", "level_high", "Of a program's window of levels, mean over the programs."),
            _plot_row("Calls a turn", "calls_per_turn", "Calls of tools that the model wrote."),
            _plot_share("Malformed calls", "malformed_share", "Share of the calls that cannot be read."),
            _plot_share("Refused calls", "refused_share", "Share of the calls that the schemas refuse."),
            _plot_share("Done instructions", "done_share", "Share of the instructions given."),
        ),
    ),
    Chapter(
        "Training",
        (
            _plot_row("Loss", "loss", "Of the learner step.", low=None),
            _plot_row("Entropy", "entropy", "Of the policy, nats a token."),
            _plot_row("Gradient norm", "grad_norm", "Before clipping."),
            _plot_row("Mismatch", "mismatch", "Between the learner's and the engine's log-probabilities, nats."),
            _plot_share("Effective samples", "effective_sample_share", "Kish's effective sample size ÷ tokens."),
        ),
    ),
    Chapter(
        "Throughput and waste",
        (
            _plot_row("Plays a second", "plays_per_s", "Over the last minute."),
            _plot_row("Tokens a second", "sampled_tokens_per_s", "Sampled, over the last minute."),
            _plot_row("Policy lag", "lag_mean", "Versions between sampling and training, mean of the last batch."),
            _plot_share("Wasted, agent", "wasted_share_agent", "Trainable plays that were never trained."),
            _plot_share("Wasted, designer", "wasted_share_designer", "Trainable designs that were never trained."),
            _plot_row("Learner's step", "step_s", "Seconds of computing."),
            _plot_row("Learner's wait", "wait_s", "Seconds until its batch was complete."),
            _plot_row("Backlog", "backlog", "Sequences that no batch has taken yet."),
            _plot_row("Broadcast", "broadcast_s", "Seconds until the last engine served a new version."),
        ),
    ),
)  # fmt: skip

_PART_FIGURES = (("win_rate_unhinted", "unhinted win rate", True), ("regret", "regret", False))


def make_chapters(runs: Sequence[RunFigures]) -> tuple[Chapter, ...]:
    """Return all chapters, with figures for the suites, skills and variants that any of the runs has."""
    learning, *others = _CHAPTERS
    parts = (_make_part_chapter("By skill", "skills", runs), _make_part_chapter("By variant", "variants", runs))
    first = Chapter(learning.title, (*_plot_held_outs(runs), *learning.figures))
    return (first, *others, *(part for part in parts if part.figures))


def make_glance(runs: Sequence[RunFigures]) -> tuple[Figure, ...]:
    """Return the figures that summarise an arm at a glance."""
    figures = {figure.title: figure for chapter in _CHAPTERS for figure in chapter.figures}
    return (*_plot_held_outs(runs), *(figures[title] for title in _GLANCE))


def _make_part_chapter(title: str, table: str, runs: Sequence[RunFigures]) -> Chapter:
    """Make charts of each skill (`table` "skills"), or of each variant ("variants")."""
    names = dict.fromkeys(name for run in runs for row in run.rows.steps for name in getattr(row, table))
    return Chapter(
        title,
        tuple(
            _plot_part(f"{as_line(name, LONGEST_NAME)}: {words}", table, name, figure, share)
            for name in sorted(names)[:MOST_PARTS]
            for figure, words, share in _PART_FIGURES
        ),
    )


def _plot_part(title: str, table: str, name: str, figure: str, share: bool) -> Figure:
    def curve(run: RunFigures) -> Curve:
        found = ((row.learner_step, getattr(row, table).get(name)) for row in run.rows.steps)
        values = ((step, getattr(each, figure)) for step, each in found if each is not None)
        return thin([Point(step, value) for step, value in values if value is not None])

    return Figure(title, "", curve, 0.0 if share else None, 1.0 if share else None, share)
