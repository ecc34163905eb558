"""The geometry of a chart."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade.app.report.drawing import BOTTOM, LEFT, RIGHT, TOP, Line, choose_ticks, draw, format_figure, name_letter
from spade.app.report.series import Point

values = st.floats(-1e12, 1e12).map(lambda value: round(value, 9)) | st.sampled_from([5e-324, -2e-322, 1e-310])
lines = st.lists(
    st.lists(values, min_size=1, max_size=12).map(lambda each: Line("a", tuple(map(Point, range(len(each)), each)))),
    min_size=1,
    max_size=12,
)


@given(lines, st.booleans(), st.booleans())
def test_everything_is_drawn_inside_the_plot(several, zero, share):
    drawn = draw(several, share, zero)
    for line in drawn.lines:
        places = [tuple(map(float, pair.split(","))) for pair in line.points.split()] + ([line.dot] if line.dot else [])
        assert all(LEFT <= x <= RIGHT and TOP <= y <= BOTTOM for x, y in places)
        assert TOP - 0.1 <= line.letter_y <= BOTTOM
    assert drawn.ys
    assert all(LEFT <= tick.at <= RIGHT for tick in drawn.xs)
    assert all(TOP <= tick.at <= BOTTOM for tick in drawn.ys)
    assert len({tick.label for tick in drawn.ys}) == len(drawn.ys)


@given(values, st.floats(0.02, 100), st.integers(2, 8))
def test_ticks_are_few_and_inside_of_their_range(low, part, most):
    span = part * max(abs(low), 1e-6)
    found = choose_ticks(low, low + span, most)
    assert len(found) <= most + 1
    assert all(low - 1e-6 * span <= tick <= low + span * (1 + 1e-6) for tick in found)


def test_a_higher_value_is_drawn_higher_and_zero_is_there_where_it_is_asked_for():
    drawn = draw([Line("a", (Point(0, 5.0), Point(10, 7.0)))], zero=True)
    (_, low), (_, high) = (map(float, pair.split(",")) for pair in drawn.lines[0].points.split())
    assert high < low
    assert drawn.ys[0].label == "0"
    assert drawn.ys[0].at == BOTTOM


def test_letters_of_curves_that_end_together_do_not_cover_each_other():
    together = [Line(name, (Point(0, 0.0), Point(9, 0.5))) for name in "abc"]
    early = Line("d", (Point(0, 0.0), Point(3, 0.5)))
    *heights, other = (line.letter_y for line in draw([*together, early]).lines)
    assert sorted(heights) == heights
    assert all(below - above >= 11 for above, below in pairwise(heights))
    assert other == draw([early, together[0]]).lines[0].letter_y  # it ends elsewhere, and stays where it ends


def test_a_lone_point_is_a_dot_with_its_interval():
    [line] = draw([Line("a", (Point(3, 0.5, 0.4, 0.6),))], share=True).lines
    assert (line.points, line.band) == ("", "")
    assert line.bar[0] > line.dot[1] > line.bar[1]
    assert line.hovers[0].text == "a, step 3: 50 % (40 % to 60 %)"


def test_a_curve_that_no_run_has_keeps_the_letters_of_the_others():
    assert [line.letter for line in draw([Line("a", ()), Line("b", (Point(1, 1.0),))]).lines] == ["B"]
    assert [name_letter(place) for place in (0, 25, 26, 53)] == ["A", "Z", "A2", "B3"]


@pytest.mark.parametrize(
    ("value", "share", "told"),
    [(0.5, True, "50 %"), (0.0123, True, "1.2 %"), (0.0, True, "0 %"), (-0.25, False, "−0.25"),
     (1234.5, False, "1,234"), (0.00001, False, "1.0e−05"), (0.0, False, "0"), (1e30, False, "1e+30")],
)  # fmt: skip
def test_figures_are_told_in_few_digits(value, share, told):
    assert format_figure(value, share) == told
