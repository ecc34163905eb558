"""The verdict on a run, in each situation that a newcomer meets."""

from random import Random

import msgspec
import pytest

from replay.inspect.journal import find_comparable
from spade.app.screen.verdict import describe_stall, judge_run
from spade.protocol import Counts, Drawn, Evaluation, Histories, Process, Recent, Status, Traffic

EASY = Recent(validity=1.0, win_rate_unhinted=0.95, zero_variance_share=0.92)
HARD = Recent(validity=1.0, win_rate_unhinted=0.05, zero_variance_share=0.875)
TEACHING = Recent(validity=1.0, win_rate_unhinted=0.5, zero_variance_share=0.25)


def evaluations(*rates, suite="", error=0.03, first=0, measure=""):
    return tuple(
        Evaluation(first + 10 * number, 1, 1, 240, 0, rate, error, 9.0, suite, measure=measure)
        for number, rate in enumerate(rates)
    )


def status(*rates, recent=TEACHING, **fields):
    fields = {"learner_step": 42, "counts": Counts(plays=800), **fields}
    return Status(recent=recent, histories=Histories(evaluations=evaluations(*rates)), **fields)


PLAYED = Counts(plays=800)
STOPPED = (Process("agent-0", "agent", 7, "stopped", 0), Process("learner", "learner", 8, "stopped", 0))


@pytest.mark.parametrize(
    ("seen", "text", "tone"),
    [
        (Status(elapsed_s=7), "just begun: nothing is played yet, after 00:07", "neutral"),
        (
            Status(elapsed_s=67, traffic=Traffic(stalled_s=67.0)),
            "just begun: nothing is played yet, after 01:07",
            "neutral",
        ),
        (Status(finished="limits.seconds"), "finished before anything was played", "neutral"),
        (Status(processes=STOPPED), "stopped before anything was played", "neutral"),
        (status(recent=Recent()), "too early to tell: no held-out win rate yet", "neutral"),
        (status(0.41), "too early to tell: held-out 0.41 ± 0.03, measured once", "neutral"),
        (status(0.40, 0.62, 0.78), "learning: held-out +0.38 since the start", "good"),
        (
            status(0.40, 0.62, 0.78, recent=EASY),
            "learning: held-out +0.38 since the start; designs too easy: 92 % of chunks have no variance",
            "good",
        ),
        (
            status(0.40, 0.42, recent=HARD),
            "flat: held-out +0.02 since the start, within its error of ± 0.08; "
            "designs too hard: 88 % of chunks have no variance",
            "neutral",
        ),
        (status(0.60, 0.62, 0.40), "falling: held-out -0.20 since the start, -0.22 since its best at step 10", "bad"),
        (status(0.60, 0.40), "falling: held-out -0.20 since the start", "bad"),
        (status(0.40, 0.80, 0.60), "falling: held-out +0.20 since the start, -0.20 since its best at step 10", "bad"),
        (
            status(0.40, 0.62, recent=Recent(validity=0.2, win_rate_unhinted=0.5, zero_variance_share=0.9)),
            "learning: held-out +0.22 since the start; designs invalid: 80 % fail admission",
            "good",
        ),
        (
            status(0.40, 0.62, recent=msgspec.structs.replace(TEACHING, zero_variance_share=0.7)),
            "learning: held-out +0.22 since the start; designs too easy or too hard: 70 % of chunks have no variance",
            "good",
        ),
        (
            status(0.40, 0.62, recent=EASY, pool=Drawn(pool_programs=64)),
            "learning: held-out +0.22 since the start; programs too easy: 92 % of chunks have no variance",
            "good",
        ),
        (
            status(0.40, 0.62, traffic=Traffic(stalled_s=61.7)),
            "stalled: no learner step and no play for 62 s",
            "bad",
        ),
        (status(0.40, 0.62, finished="it was up"), "finished, learned: held-out +0.22 since the start", "good"),
        (status(0.60, 0.40, finished="it was up"), "finished, fell: held-out -0.20 since the start", "bad"),
        (status(recent=Recent(), finished="it was up"), "finished, no held-out win rate was measured", "neutral"),
        (
            status(0.40, 0.62, processes=STOPPED, traffic=Traffic(stalled_s=5.0)),
            "stopped, learned: held-out +0.22 since the start",
            "good",
        ),
    ],
)
def test_a_situation_has_its_verdict(seen, text, tone):
    assert judge_run(seen) == (text, tone)


def test_only_evaluations_on_the_newest_suite_count():
    both = evaluations(0.9, 0.9) + evaluations(0.1, 0.4, suite="gem", first=20)
    seen = msgspec.structs.replace(status(), histories=Histories(evaluations=both))
    assert find_comparable(both) == both[2:]
    assert judge_run(seen).text == "learning: held-out +0.30 since step 20"


def test_a_stall_is_told_only_while_a_run_is_up():
    seen = status(0.4, traffic=Traffic(stalled_s=61.7))
    assert describe_stall(seen)
    assert not describe_stall(msgspec.structs.replace(seen, processes=STOPPED))
    assert not describe_stall(msgspec.structs.replace(seen, traffic=Traffic()))


def test_a_level_run_is_seldom_said_to_fall():
    """The best of many evaluations is high by luck: a run that stayed level "fell" in 29 of 100 views after 60."""
    draws, error = Random(20), 0.027
    level = [[0.83 + draws.gauss(0, error) for _ in range(60)] for _ in range(200)]
    views = [
        Status(counts=PLAYED, histories=Histories(evaluations=evaluations(0.4, *run, error=error))) for run in level
    ]
    assert sum(judge_run(view).tone == "bad" for view in views) <= 8


def test_figures_of_another_measure_are_not_compared():
    """A run may go on with another folder of programs, or with another protocol of the same suite."""
    old, new = evaluations(0.9, measure="a" * 32), evaluations(0.2, 0.3, first=50, measure="b" * 32)
    assert find_comparable(old + new) == new
    unknown = evaluations(0.9)  # as older versions kept it
    assert find_comparable(unknown + new) == unknown + new
