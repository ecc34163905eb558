"""A run in Prometheus, scraped by Prometheus' own parser."""

import os
import re
import signal
import socket
import time
from collections import Counter
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from spade.app.track.tracker import tracker
from spade.config import TrackerChoice
from spade.errors import RunError
from tests.extras.track.tracked_runs import SOON_S, append, journal, new_run, rows_of, track


def scrape(said):
    """All samples at the address that a tracker names: value by name and labels, without the run."""
    address = re.search(r"http://127\.0\.0\.1:\d+/metrics", said)[0]
    with urlopen(address, timeout=SOON_S) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    samples = [sample for family in families for sample in family.samples]
    assert {sample.labels.pop("run") for sample in samples} <= {"run"}
    found = {(sample.name, *sample.labels.values()): sample.value for sample in samples}
    assert len(found) == len(samples)
    return found


def until_tracked(run, said):
    """The scrape in which all rows of the journal are."""
    rows = rows_of(run)
    expected = {("spade_records_total", kind): count for kind, count in Counter(row["kind"] for row in rows).items()}
    deadline = time.monotonic() + SOON_S
    while time.monotonic() < deadline:
        found = scrape(said)
        if {key: value for key, value in found.items() if key[0] == "spade_records_total"} == expected:
            return found
        time.sleep(0.1)
    raise AssertionError(f"not tracked: {found}")


def test_a_scrape_has_the_newest_row_of_each_kind_also_after_kills(tmp_path):
    run = new_run(tmp_path / "run")
    append(run, journal(5))
    for life in range(1, 3):
        with track(run, "prometheus:0") as process:
            said = process.stdout.readline()
            until_tracked(run, said)
            append(run, journal(4, first=5 * life))
            found = until_tracked(run, said)
            newest = [row for row in rows_of(run) if row["kind"] == "step"][-1]
            assert found["spade_step_plays",] == newest["plays"]
            assert found["spade_step_time",] == newest["time"]
            assert found["spade_step_skills_regret", "logic"] == newest["skills"]["logic"][3]
            assert found["spade_step_process_gauges_queue", "engine-0"] == newest["process_gauges"]["engine-0"]["queue"]
            assert ("spade_step_regret",) not in found
            assert found["spade_evaluation_win_rate",] == 0.25
            os.kill(process.pid, signal.SIGKILL)
    with track(run, "prometheus:0") as process:
        until_tracked(run, process.stdout.readline())  # the run is down, and the command serves it
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=SOON_S)[0]
        assert (process.returncode, said) == (
            130, f"{len(rows_of(run))} records tracked, {len(rows_of(run))} lines of the journal in all\n"
        )  # fmt: skip


def test_any_name_becomes_a_gauge(tmp_path):
    run = new_run(tmp_path / "run")
    odd = {"ä b": 1, 'a"b\n': {'x"\\\n': 2}, "a_b_": {"y": 3}, "deep": {"x": {"y": {"z": 4}}}, "": 5, "list": [6, 7]}
    append(run, [{"kind": "step", "time": 1.0, "learner_step": 1, **odd}])
    with tracker(run, TrackerChoice("prometheus", 0)) as tracking:
        assert tracking.advance()
        found = scrape(tracking.shown)
    assert found["spade_step_a_b_", 'x"\\\n'] == 2
    assert found["spade_step_a_b_", "y"] == 3
    assert found["spade_step_deep_y_z", "x"] == 4
    assert (found["spade_step___b",], found["spade_step_",]) == (1, 5)
    assert (found["spade_step_list", "0"], found["spade_step_list", "1"]) == (6, 7)


def test_a_taken_port_is_one_line_with_what_to_do(tmp_path):
    run = new_run(tmp_path / "run")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RunError, match=rf"^prometheus:{port}: cannot be served at 127\.0\.0\.1 \(Address already"):
            tracker(run, TrackerChoice("prometheus", port)).__enter__()
