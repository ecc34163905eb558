"""The figures that announce a collapse, found in journals that the service's own code wrote."""

from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.inspect.journal import read_journal
from replay.service.journal import Journal
from spade.app.experiment.plan import read_experiment
from spade.app.experiment.results import read_results
from spade.app.screen.verdict import judge_run
from spade.config import dump, load
from spade.protocol import Counts, Evaluation, Recent, Status
from tests.bench.collapse import (
    FIGURES,
    HOLD,
    QUIET,
    Run,
    announce,
    choose_threshold,
    find_alarm,
    find_collapse,
    find_family_share,
    read_run,
)

ROOT = Path(__file__).parents[3]
STEPS = 80
FALL = 50
"""The step at which a collapsing run's validity passes 0.5."""


def write_run(folder, seed, collapses, held_out=(0.4, 0.8)):
    """A run whose validity stays high, or falls from step 30 on. Its similarity is noise."""
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(dump(load("nano", (f"run.seed={seed}",))))
    journal, random = Journal(folder), Random(seed)
    for step in range(1, STEPS + 1):
        validity = 0.95 - 0.02 * random.random() - (max(0, step - 30) * 0.44 / (FALL - 30) if collapses else 0)
        recent = Recent(validity=max(0.0, validity), similarity=random.random())
        journal.step(Status(learner_step=step, recent=recent), {})
    for place, rate in enumerate(held_out):
        journal.evaluation(Evaluation(place * STEPS // len(held_out), 1, 1, 240, 0, rate, 0.03, 9.0), 0.0)
    return folder


def test_a_collapse_and_its_figures_are_read_from_the_journals_of_runs(tmp_path):
    healthy = [read_run(write_run(tmp_path / f"full-{seed}", seed, False)) for seed in range(6)]
    collapsed = [read_run(write_run(tmp_path / f"fast-{seed}", seed, True)) for seed in (7, 9, 11)]
    assert [run.collapse for run in healthy] == [None] * 6
    assert all(run.collapse in (FALL, FALL + 1) for run in collapsed)
    found = announce([*healthy, *collapsed])
    assert found["validity"].is_chosen
    assert 0.9 < found["validity"].threshold < 0.95
    assert found["validity"].false_alarms == (0, 3)
    assert all(lead >= HOLD for lead in found["validity"].leads)
    assert not any(found[figure].is_chosen for figure in FIGURES if figure != "validity")
    assert found["entropy"].threshold is None, "it was not measured"


@pytest.mark.parametrize(
    ("held_out", "collapse"), [((0.4, 0.8, 0.6), STEPS // 3), ((0.4, 0.8, 0.75), None), ((), None)]
)
def test_a_fall_of_the_held_out_win_rate_is_a_collapse_at_its_best_step(tmp_path, held_out, collapse):
    assert read_run(write_run(tmp_path / "run", 0, False, held_out)).collapse == collapse


def test_a_journal_without_steps_is_of_a_healthy_run(tmp_path):
    write_run(tmp_path / "run", 0, False, ())
    (tmp_path / "run" / "metrics.jsonl").write_bytes(b"")
    run = read_run(tmp_path / "run")
    assert (run.collapse, read_journal(tmp_path / "run" / "metrics.jsonl").steps) == (None, ())
    assert choose_threshold([run], "validity") is None


VALUES = st.lists(st.none() | st.floats(0, 1, width=16), min_size=QUIET, max_size=QUIET + 3 * HOLD)


@given(st.lists(VALUES, min_size=1, max_size=45), st.sampled_from(sorted(FIGURES)))
def test_of_the_runs_that_choose_a_threshold_one_in_twenty_raises_an_alarm_at_most(columns, figure):
    runs = [
        Run(str(number), 0, tuple(range(1, len(values) + 1)), {figure: tuple(values)}, None)
        for number, values in enumerate(columns)
    ]
    threshold = choose_threshold(runs, figure)
    if threshold is None:
        return
    alarms = sum(find_alarm(run, figure, threshold) is not None for run in runs)
    assert alarms <= len(runs) // 20
    nearer = threshold - 1e-6 * FIGURES[figure]
    assert sum(find_alarm(run, figure, nearer) is not None for run in runs) > len(runs) // 20


def test_the_share_of_the_most_frequent_family_is_counted_over_the_newest_designs():
    designs = [(1, "Box"), *((2, "Valley") for _ in range(12)), *((3, "Box") for _ in range(36))]
    assert [find_family_share(designs, step) for step in (2, 3)] == [None, 36 / 48]
    assert find_family_share(designs[1:] + [(4, "Walk")] * 48, 9) == 1.0


PUBLISHED = {"nano": ["nano", "nano-rewards"], "nano-collapse": ["nano-collapse"], "nano-tools": ["nano-tools"]}


def test_the_verdict_names_each_collapse_of_the_published_runs():
    """No figure was found that announces a collapse (docs/metrics.md). So the verdict tells it when it is there."""
    collapsed, told = {}, dict[str, int]()
    for world, names in PUBLISHED.items():
        for name in names:
            plan = read_experiment(ROOT / "configs" / "experiments" / f"{name}.toml")
            for piece, result in read_results(ROOT / "docs" / "experiment" / world, plan).items():
                steps, validity = [row.learner_step for row in result.rows], [row.validity for row in result.rows]
                low = [step for step, value in zip(steps, validity, strict=True) if "designs invalid" in judge(value)]
                if (at := find_collapse(steps, validity, result.evaluations)) is not None:
                    collapsed[str(piece)] = at
                    assert set(low) >= set(range(at, at + HOLD))
                elif low:
                    told[str(piece)] = len(low)
    assert collapsed == {"fast-6": 44, "fast-7": 53, "fast-8": 34}
    assert told == {"no-designer-training-0": 1, "heavy-designs-7": 1}


def judge(validity):
    return judge_run(Status(counts=Counts(plays=1), recent=Recent(validity=validity))).text
