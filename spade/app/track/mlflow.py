"""MLflow: metrics of a run, in the store that MLFLOW_TRACKING_URI names.

MLflow keeps metrics of equal name, step, time and value once. So a tracker that is killed may give records again.
"""

import re

from mlflow import MlflowClient, get_tracking_uri
from mlflow.entities import Metric, Param, RunTag
from mlflow.environment_variables import MLFLOW_EXPERIMENT_NAME
from mlflow.exceptions import MlflowException
from mlflow.utils.validation import MAX_METRICS_PER_BATCH, MAX_PARAM_VAL_LENGTH, MAX_PARAMS_TAGS_PER_BATCH

from spade.app.track.records import JournalRecord
from spade.app.track.sink import PROJECT, Memory, SinkPlace
from spade.errors import RunError

_TAG = "spade.run"


class MlflowSink:
    """Writes metrics named `KIND/FIGURE` by learner step, the settings as parameters, and events as tags."""

    def __init__(self, place: SinkPlace) -> None:
        address = get_tracking_uri()
        try:
            self._client = MlflowClient()
            self._run = self._open_run(place)
        except MlflowException as error:
            raise RunError(f"MLFLOW_TRACKING_URI = {address}: {error.message.strip()}") from None
        self.shown = f"`mlflow ui --backend-store-uri {address}` shows it"

    def _open_run(self, place: SinkPlace) -> str:
        """Return MLflow's id of the run. Create the run if an earlier tracker did not."""
        name = MLFLOW_EXPERIMENT_NAME.get() or PROJECT
        experiment = self._client.get_experiment_by_name(name)
        home = experiment.experiment_id if experiment else self._client.create_experiment(name)
        if found := self._client.search_runs([home], f"tags.`{_TAG}` = '{place.id}'"):
            return str(found[0].info.run_id)
        run = self._client.create_run(home, run_name=place.name, tags={_TAG: place.id}).info.run_id
        params = [Param(key, str(value)[:MAX_PARAM_VAL_LENGTH]) for key, value in place.list_settings().items()]
        for start in range(0, len(params), MAX_PARAMS_TAGS_PER_BATCH):
            self._client.log_batch(run, params=params[start : start + MAX_PARAMS_TAGS_PER_BATCH])
        return str(run)

    def write(self, record: JournalRecord) -> None:
        """See `Sink`."""
        time_ms = round(1_000 * record.time)
        metrics = [
            Metric(re.sub(r"[^\w\-. /:]", "_", name), value, time_ms, record.step)
            for name, value in record.named_figures.items()
        ]
        tags = [RunTag(f"event/{record.number}", record.text)] if record.text else []
        try:
            for start in range(0, max(len(metrics), len(tags)), MAX_METRICS_PER_BATCH):
                self._client.log_batch(self._run, metrics[start : start + MAX_METRICS_PER_BATCH], tags=tags)
        except MlflowException as error:
            raise RunError(f"MLFLOW_TRACKING_URI = {get_tracking_uri()}: {error.message.strip()}") from None

    def commit(self) -> Memory:
        """See `Sink`. MLflow has each record when `write` returns."""
        return {}

    def close(self) -> None:
        """See `Sink`."""
        self._client.set_terminated(self._run)
