"""Runs in trackers with packages of their own, read back by each tool's reader.

Each tracker is killed while the journal grows. What the tool has in the end must equal the journal.
"""

import json
import re
from collections import defaultdict
from pathlib import Path

import pytest
from mlflow import MlflowClient
from swanlab.converter.wb.wbdatastore import WBDataStoreReader
from swanlab.proto.swanlab.record.v1.record_pb2 import Record as SwanlabRecord
from swanlab.sdk.internal.core_python.store import DataStoreReader
from trackio.sqlite_storage import SQLiteStorage
from wandb.proto.wandb_internal_pb2 import Record as WandbRecord

from spade.app.door import open_run
from spade.app.track.mlflow import make_name
from spade.app.track.records import Position, read_batch
from spade.app.track.tracker import tracker
from spade.config import TrackerChoice
from spade.errors import RunError
from tests.app.report.test_page import make_run
from tests.extras.track.tracked_runs import append, journal, new_run, track, track_and_kill

SETTING = "learner.lr"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the packages that MLflow takes


def records_of(run):
    """All records of the run's journal."""
    return read_batch(run.metrics_path, Position()).records


def list_wandb(run):
    """Yield all that the one run says which W&B keeps."""
    (file,) = run.path.glob("track/wandb/wandb/offline-run-*/*.wandb")
    with WBDataStoreReader() as reader:
        reader.open(file)
        while data := reader.scan():
            yield WandbRecord.FromString(data)


def read_wandb(run):
    """Return the rows of the one run that W&B keeps: figures by name for each step of W&B. And its settings."""
    rows, settings = {}, {}
    for record in list_wandb(run):
        if record.HasField("run"):
            settings |= {each.key: json.loads(each.value_json) for each in record.run.config.update}
        if record.HasField("history"):
            row = {"".join(each.nested_key) or each.key: json.loads(each.value_json) for each in record.history.item}
            assert record.history.step.num not in rows
            rows[record.history.step.num] = row
    return rows, settings


def read_swanlab(run):
    """Return the rows of the one run that SwanLab keeps: figures by name for each step of SwanLab."""
    (file,) = run.path.glob("track/swanlab/*/*.swanlab")
    reader, rows = DataStoreReader(), defaultdict(dict)
    reader.open(file)
    for data in reader:
        record = SwanlabRecord.FromString(data)
        if record.HasField("scalar"):
            assert record.scalar.key not in rows[record.scalar.step]
            rows[record.scalar.step][record.scalar.key] = record.scalar.value.number
    reader.close()
    return rows


def test_wandb_offline_has_each_record_once_after_a_kill(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    run = new_run(tmp_path / "run")
    said = track_and_kill(run, "wandb", seed=3, lives=1)
    assert "wandb sync" in said
    rows, settings = read_wandb(run)
    records = records_of(run)
    assert [*rows] == [record.number for record in records]
    for record in records:
        row = rows[record.number]
        assert {name: row[name] for name in record.named_figures} == record.named_figures
        assert (row["learner_step"], row["_timestamp"]) == (record.step, record.time)
        assert row.get("event", "") == record.text
    assert settings[SETTING] == run.config().learner.lr


def test_wandb_gets_the_tables_and_the_report_of_a_run_that_is_down(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path))
    run = make_run(tmp_path / "run")
    with track(run, "wandb") as process:
        assert process.communicate()[1] is None
    (kept,) = [record.artifact for record in list_wandb(run) if record.HasField("artifact")]
    files = {entry.path: Path(entry.local_path) for entry in kept.manifest.contents}
    assert files.keys() == {"environments.table.json", "plays.table.json", "report.html"}
    tables = {name: json.loads(file.read_text()) for name, file in files.items() if name.endswith(".json")}
    opened = open_run(run.path)
    sources = [row[-1] for row in tables["environments.table.json"]["data"]]
    assert sources == [each.source for each in opened.environments]
    plays = [row[0] for row in tables["plays.table.json"]["data"]]
    assert plays == [each.id for each in opened.plays()] != []
    assert "class LampEnv" in re.sub("<[^>]*>", "", files["report.html"].read_text())


def test_swanlab_offline_has_each_record_once_after_a_kill(tmp_path, monkeypatch):
    monkeypatch.setenv("SWANLAB_MODE", "offline")
    run = new_run(tmp_path / "run")
    track_and_kill(run, "swanlab", seed=4, lives=1)
    rows = read_swanlab(run)
    assert rows == {record.number: pytest.approx(record.named_figures) for record in records_of(run) if record.figures}


def test_mlflow_in_sqlite_has_each_record_once_after_a_kill(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    run = new_run(tmp_path / "run")
    track_and_kill(run, "mlflow", seed=5, lives=1)
    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    (found,) = client.search_runs([client.get_experiment_by_name("spade").experiment_id])
    assert (found.info.run_name, found.info.status) == ("run", "FINISHED")
    assert found.data.params[SETTING] == str(run.config().learner.lr)
    expected = defaultdict(list)
    for record in records_of(run):
        for name, value in record.named_figures.items():
            expected[name].append((record.step, round(1_000 * record.time), value))
        assert found.data.tags.get(f"event/{record.number}", "") == record.text
    assert {*found.data.metrics} == {*expected}
    for name, values in expected.items():
        history = client.get_metric_history(found.info.run_id, name)
        assert [(one.step, one.timestamp, one.value) for one in history] == values


def test_trackio_has_each_record_once_after_a_kill(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setattr("trackio.sqlite_storage.TRACKIO_DIR", tmp_path / "trackio")
    run = new_run(tmp_path / "run")
    track_and_kill(run, "trackio", seed=6, lives=1)
    rows = SQLiteStorage.get_logs("spade", "run")
    records = records_of(run)
    for row, record in zip(rows, records, strict=True):
        assert row.pop("timestamp")
        assert row.pop("event", "") == record.text
        assert row == {**record.named_figures, "step": record.step}
    assert SQLiteStorage.get_run_config("spade", "run")[SETTING] == run.config().learner.lr


def test_trackio_names_a_folder_that_it_cannot_write(tmp_path, monkeypatch):
    monkeypatch.setattr("trackio.sqlite_storage.TRACKIO_DIR", tmp_path)
    (tmp_path / "spade.db").write_text("no database, but long enough to be read as the header of one" * 20)
    run = new_run(tmp_path / "run")
    append(run, journal(1))
    with tracker(run, TrackerChoice("trackio")) as tracking, pytest.raises(RunError, match="Trackio cannot write"):
        tracking.advance()


def test_names_that_mlflow_would_refuse_are_changed():
    assert make_name(("step", "a//b", "..", "c\n")) == "step/a__b/_/c_"


@pytest.mark.parametrize("address", ["http://127.0.0.1:9", "nonsense://x"])
def test_a_store_that_is_not_there_is_named(tmp_path, monkeypatch, address):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(RunError, match=f"^MLFLOW_TRACKING_URI = {address}"):
        tracker(new_run(tmp_path / "run"), TrackerChoice("mlflow")).__enter__()
