"""The verdicts about the second half of an hour of nano, by the rules of docs/experiment.md."""

import msgspec
import pytest

from replay.inspect.journal import EvaluationRow
from spade.app.experiment.analysis import Mean
from tests.app.experiment.grids import experiment, result
from tests.bench.hour import compute_rise, compute_top, judge_rise


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.001, 0.3, "rising"),
        (0, 0.01, "flat"),
        (-0.02, 0.02, "flat"),
        (-0.021, 0.01, "open"),
        (-0.01, 0.03, "open"),
        (-0.02, -0.01, "open"),
        (None, None, "open"),
    ],
)
def test_a_curve_rises_or_is_flat_by_its_interval(low, high, verdict):
    assert judge_rise(Mean(0.0, low, high, 3)) == verdict


def test_a_rise_compares_the_last_two_quarters(tmp_path):
    plan = experiment(tmp_path)
    rates = {0: 0.1, 160: 0.2, 168: 0.5, 240: 0.6, 248: 0.7, 320: 0.9}
    rows = [EvaluationRow(step, 8, rate) for step, rate in rates.items()]
    run = msgspec.structs.replace(result(plan, plan.pieces[0]), steps=320, evaluations=rows)
    assert compute_rise(run) == pytest.approx(0.8 - 0.55)


def test_an_outcome_is_the_mean_of_the_last_two_evaluations_up_to_a_step():
    rows = [EvaluationRow(step, 8, 0.5, categories={"level 6": step / 1_000}) for step in (0, 100, 152, 160, 168)]
    assert compute_top(rows, 160) == pytest.approx(0.156)
    assert compute_top(rows, 320) == pytest.approx(0.164)
