"""The rows of `metrics.jsonl`, also after a service that was killed while it wrote one."""

import json
import os
import resource

import pytest

from replay.service.journal import Journal
from spade.errors import RunError
from spade.protocol import Status


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


def test_without_descriptors_nothing_is_written_and_nothing_ends(tmp_path, caplog):
    """As when others have opened so many connections that there are none left."""
    journal, limits = Journal(tmp_path), resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open("/dev/null", os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    try:
        journal.event("resume", 1.0)
        journal.status(Status())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert [record.message for record in caplog.records] == [
        f"{tmp_path / name} is not written: Too many open files; too many connections are open"
        for name in ("metrics.jsonl", "status.json")
    ]
    journal.event("step", 2.0)
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda file: file.symlink_to("outside")])
def test_a_journal_that_is_no_file_is_refused_in_one_line(tmp_path, make):
    (tmp_path / "outside").write_text("precious")
    make(tmp_path / "metrics.jsonl")
    with pytest.raises(RunError, match=r"metrics\.jsonl: is not a regular file"):
        Journal(tmp_path)
    assert (tmp_path / "outside").read_text() == "precious"
