"""records.jsonl: any kill loses at most the line being written, and nothing damaged is ever counted."""

import multiprocessing
import os
import signal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spade.errors import RunError
from spade.evaluations import RecordFile, SampleRecord, read_records, summarise_records
from spade.evaluations.record import write_record
from tests.spade.evaluations.samples import RECORDS, SCHEDULED, record

LINES = [write_record(each) for each in RECORDS]


def resume(file):
    """Open the file again and add what is missing; the summary."""
    by_key = {each.key: each for each in RECORDS}
    with RecordFile(file, SCHEDULED) as kept:
        for key in kept.missing:
            assert kept.add(by_key[key])
        return summarise_records(kept.records.values(), SCHEDULED)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kept")


def test_a_kill_at_any_byte_of_a_line_loses_that_line_alone(folder):
    file, undisturbed, whole = folder / "records.jsonl", summarise_records(RECORDS, SCHEDULED), len(LINES) - 1
    for cut in range(len(LINES[whole])):
        file.write_bytes(b"".join(LINES[:whole]) + LINES[whole][:cut])
        assert list(read_records(file, SCHEDULED)) == RECORDS[:whole]
        assert resume(file) == undisturbed
        assert file.read_bytes() == b"".join(LINES)


@given(st.permutations(RECORDS), st.data())
def test_records_in_any_order_and_cut_anywhere_come_to_the_same_summary(folder, order, data):
    written = b"".join(map(write_record, order))
    file = folder / "permuted.jsonl"
    file.write_bytes(written[: data.draw(st.integers(0, len(written)))])
    assert resume(file) == summarise_records(RECORDS, SCHEDULED)
    assert sorted(file.read_bytes().splitlines()) == sorted(line.rstrip() for line in LINES)


def write_until_killed(file, started):
    with RecordFile(file, SCHEDULED) as kept:
        for each in RECORDS[:5]:
            kept.add(each)
        started.set()
        signal.pause()


def test_what_was_added_survives_the_death_of_the_process(tmp_path):
    file, context = tmp_path / "records.jsonl", multiprocessing.get_context("fork")
    started = context.Event()
    process = context.Process(target=write_until_killed, args=(file, started))
    process.start()
    assert started.wait(20)
    with pytest.raises(RunError, match=r"another process"):
        RecordFile(file, SCHEDULED)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert list(read_records(file, SCHEDULED)) == RECORDS[:5]
    with RecordFile(file, SCHEDULED) as kept:
        assert len(kept.missing) == len(RECORDS) - 5


def test_a_new_file_misses_all_a_sample_of_each_item_before_the_next(tmp_path):
    with RecordFile(tmp_path / "records.jsonl", SCHEDULED) as kept:
        assert kept.missing == [(item, sample) for sample in range(3) for item in "abcd"]


def test_the_first_of_two_records_for_one_sample_counts(tmp_path):
    file = tmp_path / "records.jsonl"
    file.write_bytes(write_record(record(correct=True)) + write_record(record(correct=False)) + LINES[1])
    first, second = read_records(file, SCHEDULED)
    assert (first.correct, second) == (True, RECORDS[1])
    with RecordFile(file, SCHEDULED) as kept:
        assert kept.records["a", 0].correct
        before = file.read_bytes()
        assert not kept.add(record(correct=False))
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"{}\n",
        b"\x00\xff\n",
        b"[" * 5000 + b"\n",
        LINES[1][:-9] + b"\n",
        LINES[1].replace(b'"score":1.0', b'"score":1e999'),
        LINES[1].replace(b'"score":1.0', b'"score":null'),
        LINES[1].replace(b'"text"', b'"more":1,"text"'),
        LINES[1].replace(b'"sample":0', b'"sample":-1'),
        LINES[1].replace(b'"error":null', b'"error":"unfit"'),
        LINES[1].replace(b'"error":null', b'"error":"\\u001b[31m"'),
    ],
)
def test_a_damaged_line_in_the_middle_is_one_line_with_its_number(tmp_path, line):
    file = tmp_path / "records.jsonl"
    assert line != LINES[1]
    file.write_bytes(LINES[0] + line + LINES[2])
    for read in (RecordFile, lambda *given: list(read_records(*given))):
        with pytest.raises(RunError, match=r"records.jsonl, line 2: is damaged") as caught:
            read(file, SCHEDULED)
        assert str(caught.value).isprintable()
    assert file.read_bytes() == LINES[0] + line + LINES[2]


@pytest.mark.parametrize("foreign", [record("z"), record("a", 3), record("\x1b[2J\n")])
def test_a_record_of_another_evaluation_is_one_line_with_its_number(tmp_path, foreign):
    file = tmp_path / "records.jsonl"
    file.write_bytes(LINES[0] + write_record(foreign))
    with pytest.raises(RunError, match=r"line 2: sample . of .*to another evaluation") as caught:
        RecordFile(file, SCHEDULED)
    assert str(caught.value).isprintable()


def test_a_file_that_is_no_file_is_refused(tmp_path):
    fifo, link = tmp_path / "fifo", tmp_path / "link"
    os.mkfifo(fifo)
    link.symlink_to("/dev/zero")
    with pytest.raises(OSError, match=r"not a regular file"):
        RecordFile(fifo, SCHEDULED)
    with pytest.raises(OSError, match=r"symbolic links"):
        RecordFile(link, SCHEDULED)


def test_a_record_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    import resource

    file = tmp_path / "records.jsonl"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with RecordFile(file, SCHEDULED) as kept:
        kept.add(RECORDS[0])
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(LINES[0]) + 10, limits[1]))
        try:
            with pytest.raises(RunError, match=r"a record cannot be written"):
                kept.add(RECORDS[1])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, before)
        assert file.read_bytes() == LINES[0]
        assert kept.add(RECORDS[1])
    assert list(read_records(file, SCHEDULED)) == RECORDS[:2]


def test_texts_are_kept_on_disk_and_not_in_memory(tmp_path):
    file = tmp_path / "records.jsonl"
    with RecordFile(file, SCHEDULED) as kept:
        kept.add(RECORDS[0])
        assert kept.records["a", 0].text == ""
    assert next(read_records(file, SCHEDULED)).text == RECORDS[0].text


@given(st.binary(max_size=60))
def test_bytes_that_are_no_record_are_a_cut_line_or_one_clear_line(folder, data):
    file = folder / "any.jsonl"
    file.write_bytes(LINES[0] + data)
    if b"\n" not in data:
        assert list(read_records(file, SCHEDULED)) == RECORDS[:1]
        return
    with pytest.raises(RunError) as caught:
        list(read_records(file, SCHEDULED))
    assert str(caught.value).isprintable()


def test_a_sample_that_ended_in_an_error_is_never_correct():
    with pytest.raises(ValueError, match=r"unfit"):
        record(correct=True, error="unfit")
    assert msgspec.json.decode(LINES[0], type=SampleRecord) == RECORDS[0]
