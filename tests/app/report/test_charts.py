"""The curves of arms of several runs."""

from itertools import count

from replay.inspect.journal import EvaluationRow, JournalRows
from spade.app.report.arms import Arm
from spade.app.report.charts import draw_chapters
from spade.app.report.figures import RunFigures


def charts_of(*win_rates):
    """The held-out chart of arms, each given as the last win rates of its runs."""
    runs = [
        RunFigures(JournalRows(evaluations=(EvaluationRow(0, 96, 0.4), EvaluationRow(8, 96, last))))
        for arm in win_rates
        for last in arm
    ]
    places = count()
    arms = [Arm(str(len(arm)), tuple(next(places) for _ in arm)) for arm in win_rates]
    return next(chart for chapter in draw_chapters(arms, runs) for chart in chapter.charts)


def test_two_runs_have_no_band_since_it_would_hide_the_bands_of_others():
    chart = charts_of((0.5, 0.7), (0.6, 0.62, 0.64))
    two, three = chart.drawn.lines
    assert (two.band, bool(three.band)) == ("", True)
    assert [len(line.faint) for line in (two, three)] == [2, 3]  # the runs themselves show how far apart they are


def test_the_band_of_two_runs_does_not_stretch_the_axis():
    chart = charts_of((0.5, 0.7))
    assert [tick.label for tick in chart.drawn.ys][-1] == "80 %"
    assert chart.numbers[0].cells[-1] == ("8", "60 %")


def test_win_rates_of_other_plays_are_not_on_one_curve():
    rows = [EvaluationRow(0, 96, 0.9, measure="a"), *(EvaluationRow(step, 96, 0.2, measure="b") for step in (8, 16))]
    chart = draw_chapters([Arm("", (0,))], [RunFigures(JournalRows(evaluations=tuple(rows)))])[0].charts[0]
    assert [step for step, _ in chart.numbers[0].cells] == ["8", "16"]
