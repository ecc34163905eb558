"""The rows of `metrics.jsonl`, also after a service that was killed while it wrote one."""

import json

import pytest

from replay.journal import Journal


@pytest.mark.parametrize(("left", "rows"), [("", ["resume"]), ('{"event":"start"}\n', ["start", "resume"])])
def test_rows_are_whole_lines(tmp_path, left, rows):
    file = tmp_path / "metrics.jsonl"
    file.write_text(left)
    Journal(tmp_path).event("resume", 1.0)
    assert [json.loads(line)["event"] for line in file.read_text().splitlines()] == rows


def test_half_a_row_is_ended_and_the_next_one_is_whole(tmp_path):
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"event":"start"}\n{"eve')
    Journal(tmp_path).event("resume", 1.0)
    first, half, last = file.read_text().splitlines()
    assert (json.loads(first)["event"], half, json.loads(last)["event"]) == ("start", '{"eve', "resume")
