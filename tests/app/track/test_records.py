"""Records of a journal that still grows: each once and in order, however its bytes come."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.inspect.journal import ROW_BYTES
from spade.app.track.records import Position, read_batch
from spade.errors import RunError

START = Position()
STEP = {"kind": "step", "time": 7.0, "learner_step": 3, "loss": 0.5}


def lines(*rows):
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def read(journal, after=START):
    return read_batch(journal, after)


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "metrics.jsonl"


def test_a_row_gives_every_number_with_its_path(journal):
    row = {
        **STEP, "regret": None, "finished": "", "on": True, "tokens_by_lag": [4, 2], "return_gap": {"logic": 0.25},
        "process_gauges": {"engine-0": {"queue": 1}}, "skills": {"logic": ["SkillFigures", 0.5, None, 0.1, 0.2]},
    }  # fmt: skip
    journal.write_bytes(lines(row))
    (record,) = read(journal).records
    assert (record.number, record.kind, record.time, record.step, record.text) == (1, "step", 7.0, 3, "")
    assert record.figures == {
        ("learner_step",): 3.0, ("loss",): 0.5, ("tokens_by_lag", "0"): 4.0, ("tokens_by_lag", "1"): 2.0,
        ("return_gap", "logic"): 0.25, ("process_gauges", "engine-0", "queue"): 1.0,
        ("skills", "logic", "win_rate_unhinted"): 0.5, ("skills", "logic", "regret"): 0.1,
        ("skills", "logic", "learnable_share"): 0.2,
    }  # fmt: skip


def test_an_event_has_its_words_and_the_step_before_it(journal):
    journal.write_bytes(
        lines(STEP, {"kind": "event", "time": 8.0, "event": "finish", "why": "3 steps", "elapsed_s": 1})
    )
    first = read(journal)
    assert [(record.step, record.text) for record in first.records] == [(3, ""), (3, "finish: 3 steps")]
    with journal.open("ab") as file:
        file.write(lines({"kind": "event", "time": 9.0, "event": "stop"}))
    assert [(one.number, one.step, one.text) for one in read(journal, first.after).records] == [(3, 3, "stop")]


@given(st.data())
def test_each_record_comes_once_and_in_order_however_the_bytes_come(data):
    good = st.floats(allow_nan=False).map(lambda loss: lines({**STEP, "loss": loss}))
    bad = st.sampled_from(
        [b"\n", b'{"kind":"ste\n', b"[]\n", b"\xff\n", b'{"kind":"step"}\n', b'{"time":1,"kind":1}\n']
    )
    rows = data.draw(st.lists(good | bad, max_size=8))
    whole = b"".join(rows)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    found, unreadable, position = [], 0, Position()
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "metrics.jsonl"
        for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
            with journal.open("ab") as file:
                file.write(whole[start:end])
            for _ in range(2):  # the second time there is nothing new
                batch = read(journal, position)
                found += batch.records
                unreadable, position = unreadable + batch.unreadable, batch.after
    expected = [(number, json.loads(row)["loss"]) for number, row in enumerate(rows, 1) if b'"loss"' in row]
    assert [(one.number, one.figures.get(("loss",))) for one in found] == [
        (number, loss if abs(loss) < float("inf") else None) for number, loss in expected
    ]
    assert (unreadable, position.lines, position.bytes) == (len(rows) - len(expected), len(rows), len(whole))


def test_a_row_that_is_torn_waits_for_its_end(journal):
    whole = lines(STEP)
    journal.write_bytes(whole + whole[:-1])
    first = read(journal)
    assert len(first.records) == 1
    assert read(journal, first.after).after == first.after
    with journal.open("ab") as file:
        file.write(b"\n")
    assert [record.number for record in read(journal, first.after).records] == [2]


def test_a_row_over_the_bound_is_left_out(journal):
    journal.write_bytes(b'{"kind": "' + b"x" * ROW_BYTES + b'"}\n' + lines(STEP))
    first = read(journal)
    assert (len(first.records), first.unreadable) == (0, 1)
    assert [record.number for record in read(journal, first.after).records] == [2]


@pytest.mark.parametrize("change", [b"", lines(STEP), lines({**STEP, "loss": 0.25}, STEP, STEP)])
def test_a_journal_that_was_cut_or_replaced_is_refused(journal, change):
    journal.write_bytes(lines(STEP, STEP))
    after = read(journal).after
    journal.write_bytes(change)
    with pytest.raises(RunError, match=r"metrics\.jsonl: is not the file"):
        read(journal, after)
