import io
import logging

import pytest

from spade.processes.rate_limit import RateLimitFilter


@pytest.fixture
def lines():
    """The lines of a logger of its own, at times that the test gives."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(RateLimitFilter())

    def write(text, *words, at, times=1):
        for _ in range(times):
            record = logging.makeLogRecord({"name": "bus", "msg": text, "args": words, "created": at})
            handler.handle(record)
        written = stream.getvalue().splitlines()
        stream.seek(0)
        stream.truncate()
        return written

    return write


def test_a_flood_of_one_kind_is_cut_short_and_counted(lines):
    assert len(lines("%s is here", "agent-0", at=1.0, times=5_000)) == 100
    assert lines("%s is gone", "agent-0", at=2.0) == ["agent-0 is gone"]
    assert lines("%s is here", "agent-1", at=12.0, times=2) == [
        "agent-1 is here (4900 more like it were not logged)", "agent-1 is here"
    ]  # fmt: skip
    assert lines("%s is here", "agent-2", at=30.0) == ["agent-2 is here"]


def test_kinds_without_number_are_one_kind(lines):
    written = [line for number in range(5_000) for line in lines(f"line {number}", at=1.0)]
    assert len(written) == 1_024 + 100
