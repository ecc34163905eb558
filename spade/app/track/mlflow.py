"""MLflow: metrics of a run, in the store that MLFLOW_TRACKING_URI names.

If MLflow gets a metric with the same name, step, time and value again, it keeps only one. So after a kill, the next
tracker may give records again.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from mlflow import MlflowClient, get_tracking_uri
from mlflow.entities import Metric, Param, RunTag
from mlflow.environment_variables import MLFLOW_EXPERIMENT_NAME
from mlflow.exceptions import MlflowException
from mlflow.utils.validation import (
    MAX_METRICS_PER_BATCH,
    MAX_PARAM_VAL_LENGTH,
    MAX_PARAMS_TAGS_PER_BATCH,
    MAX_TAG_VAL_LENGTH,
)

from spade.app.track.records import JournalRecord
from spade.app.track.sink import PROJECT, Sink, SinkPlace
from spade.errors import RunError

_TAG = "spade.run"


class MlflowSink(Sink):
    """Writes metrics named `KIND/FIGURE` by learner step, the settings as parameters, and events as tags."""

    def __init__(self, place: SinkPlace) -> None:
        with _explain():
            self._client = MlflowClient()
            self._run = self._open_run(place)
        self.shown = f"`mlflow ui --backend-store-uri {get_tracking_uri()}` shows it"

    def _open_run(self, place: SinkPlace) -> str:
        """Return MLflow's id of the run. Create the run if an earlier tracker did not."""
        name = MLFLOW_EXPERIMENT_NAME.get() or PROJECT
        experiment = self._client.get_experiment_by_name(name)
        home = experiment.experiment_id if experiment else self._client.create_experiment(name)
        found = self._client.search_runs([home], f"tags.`{_TAG}` = '{place.id}'")
        run = found[0] if found else self._client.create_run(home, run_name=place.name, tags={_TAG: place.id})
        params = [
            Param(key, str(value)[:MAX_PARAM_VAL_LENGTH])
            for key, value in place.list_settings().items()
            if key not in run.data.params  # MLflow never changes a parameter
        ]
        for start in range(0, len(params), MAX_PARAMS_TAGS_PER_BATCH):
            self._client.log_batch(run.info.run_id, params=params[start : start + MAX_PARAMS_TAGS_PER_BATCH])
        return str(run.info.run_id)

    def write(self, record: JournalRecord) -> None:
        """See `Sink`."""
        time_ms = round(1_000 * record.time)
        metrics = [
            Metric(make_name((record.kind, *path)), value, time_ms, record.step)
            for path, value in record.figures.items()
        ]
        tags = [RunTag(f"event/{record.number}", record.text[:MAX_TAG_VAL_LENGTH])] if record.text else []
        with _explain():
            for start in range(0, max(len(metrics), len(tags)), MAX_METRICS_PER_BATCH):
                self._client.log_batch(self._run, metrics[start : start + MAX_METRICS_PER_BATCH], tags=tags)

    def close(self) -> None:
        """See `Sink`."""
        with _explain():
            self._client.set_terminated(self._run)


@contextmanager
def _explain() -> Iterator[None]:
    """Turn an error of MLflow into one line with the address of the store."""
    try:
        yield
    except MlflowException as error:
        raise RunError(f"MLFLOW_TRACKING_URI = {get_tracking_uri()}: {error.message.strip()}") from None


def make_name(path: Iterable[str]) -> str:
    """Return the name of a figure in the characters that MLflow allows. No part may be "." or ".."."""
    return "/".join(re.sub(r"[^\w\-. :]", "_", part).strip(".") or "_" for part in path)
