"""Text for people."""

import pytest

from spade.text import clock


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "00:00"), (192.9, "03:12"), (3599, "59:59"), (3600, "1:00:00"), (360_061, "100:01:01"), (-5, "00:00")],
)
def test_a_time_is_told_with_its_hours_once_it_has_some(seconds, told):
    assert clock(seconds) == told


def test_no_time_is_longer_than_a_line():
    assert len(clock(1e308)) < 20
