"""The verdict on a run in one line: whether it learns, and whether its programs can teach. Pure."""

from math import hypot
from statistics import NormalDist
from typing import Literal, NamedTuple

from replay.inspect.journal import find_comparable
from spade.estimates.intervals import Z
from spade.protocol import Evaluation, Recent, Status
from spade.text import format_clock

MOST_WITHOUT_VARIANCE = 0.6
"""With a greater share of chunks without variance, the verdict says that programs are too easy or too hard."""
LEAST_VALIDITY = 0.5
"""With a smaller share of valid programs, the verdict says that programs are invalid."""
_EASY, _HARD = 0.8, 0.2  # unhinted win rates; an environment is learnable between them

Tone = Literal["good", "neutral", "bad"]


class Judgement(NamedTuple):
    """A verdict in words."""

    text: str
    """The verdict in one line."""

    tone: Tone
    """Good, neutral or bad news. The tone decides the colour of the verdict."""


def judge_run(status: Status) -> Judgement:
    """Judge a run by its status."""
    over = _describe_over(status)
    if begun := describe_beginning(status):
        return Judgement(f"{over} before anything was played" if over else begun, "neutral")
    if stall := describe_stall(status):
        return Judgement(_join_clauses(stall, _describe_programs(status)), "bad")
    learning, tone = _describe_learning(status, bool(over))
    return Judgement(_join_clauses(f"{over}, {learning}" if over else learning, _describe_programs(status)), tone)


def describe_beginning(status: Status) -> str:
    """Say that nothing was played yet. Returns "" once there is a play or an evaluation.

    A slow machine takes minutes to begin. That is not a stall.
    """
    if status.counts.plays or find_comparable(status.histories.evaluations):
        return ""
    return f"just begun: nothing is played yet, after {format_clock(status.elapsed_s)}"


def describe_stall(status: Status) -> str:
    """Describe the stall of a live run. Returns "" if the run makes progress."""
    if not status.traffic.stalled_s or _describe_over(status):
        return ""
    return f"stalled: no learner step and no play for {status.traffic.stalled_s:.0f} s"


def _describe_over(status: Status) -> str:
    """Return "finished" or "stopped" if the run is over, else ""."""
    if status.finished:
        return "finished"
    states = {process.state for process in status.processes}
    return "stopped" if states == {"stopped"} else ""


def _describe_learning(status: Status, over: bool) -> tuple[str, Tone]:
    """Describe the change of the held-out win rate. If the run is over, use the past tense."""
    evaluations = find_comparable(status.histories.evaluations)
    if not evaluations:
        return "no held-out win rate was measured" if over else "too early to tell: no held-out win rate yet", "neutral"
    first, newest = evaluations[0], evaluations[-1]
    if len(evaluations) == 1:
        once = f"held-out {newest.win_rate:.2f} ± {newest.error:.2f}, measured once"
        return once if over else f"too early to tell: {once}", "neutral"
    best = max(evaluations, key=lambda one: one.win_rate)
    since = f"since step {first.step}" if first.step else "since the start"
    gain = f"held-out {newest.win_rate - first.win_rate:+.2f} {since}"
    if _is_different(first, newest) or _is_different(best, newest, among=len(evaluations) - 1):
        lost = "" if best is first else f", {newest.win_rate - best.win_rate:+.2f} since its best at step {best.step}"
        return f"{'fell' if over else 'falling'}: {gain}{lost}", "bad"
    if _is_different(newest, first):
        return f"{'learned' if over else 'learning'}: {gain}", "good"
    return f"flat: {gain}, within its error of ± {Z * hypot(first.error, newest.error):.2f}", "neutral"


def _is_different(high: Evaluation, low: Evaluation, among: int = 1) -> bool:
    """Return True if `high` has a significantly higher win rate than `low`. Both measured the same items.

    If `high` was chosen as the best of `among` evaluations, the threshold is higher (Bonferroni).
    """
    threshold = NormalDist().inv_cdf(1 - 0.025 / among)
    return high.win_rate - low.win_rate > threshold * hypot(high.error, low.error)


def _describe_programs(status: Status) -> str:
    """Say what is wrong with the played programs: invalid, too easy or too hard. Returns "" if nothing is wrong."""
    recent = status.recent
    what = "programs" if status.pool.pool_programs else "designs"
    if recent.validity is not None and recent.validity < LEAST_VALIDITY:
        return f"{what} invalid: {_format_percent(1 - recent.validity)} fail admission"
    fault = _describe_difficulty(recent)
    if fault and recent.zero_variance_share is not None:
        return f"{what} {fault}: {_format_percent(recent.zero_variance_share)} of chunks have no variance"
    return ""


def _describe_difficulty(recent: Recent) -> str:
    """Say why most chunks lack variance, or return "" if enough of them vary."""
    if recent.zero_variance_share is None or recent.zero_variance_share <= MOST_WITHOUT_VARIANCE:
        return ""
    rate = recent.win_rate_unhinted
    if rate is not None and rate >= _EASY:
        return "too easy"
    if rate is not None and rate <= _HARD:
        return "too hard"
    return "too easy or too hard"


def _join_clauses(*clauses: str) -> str:
    return "; ".join(filter(None, clauses))


def _format_percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")
