"""Prometheus: an HTTP endpoint on loopback with the figures of the newest row of each kind."""

import re
from collections import Counter
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from spade.app.track.records import Figures, JournalRecord
from spade.app.track.sink import Memory, SinkPlace
from spade.errors import RunError, format_reason

HOST = "127.0.0.1"


class PrometheusSink:
    """Serves gauges named `spade_KIND_FIGURE`, and the number of records of each kind.

    A figure of a table is a gauge with the label `name`: ("skills", "Math Computation", "regret") is
    spade_step_skills_regret{name="Math Computation"}.
    """

    def __init__(self, place: SinkPlace) -> None:
        self._run = place.name
        self._newest: dict[str, Figures] = {}
        self._records: Counter[str] = Counter()
        self._metrics: list[Metric] = []
        registry = CollectorRegistry()
        registry.register(self)
        port = place.port
        try:
            self._server, self._thread = start_http_server(port, HOST, registry)
        except OSError as error:
            raise RunError(
                f"prometheus:{port}: cannot be served at {HOST} ({format_reason(error)}); take another port"
            ) from None
        self.shown = f"Prometheus may scrape http://{HOST}:{self._server.server_port}/metrics"

    def write(self, record: JournalRecord) -> None:
        """See `Sink`."""
        self._newest[record.kind] = {**record.figures, ("time",): record.time}
        self._records[record.kind] += 1

    def commit(self) -> Memory:
        """See `Sink`. Nothing is saved, because the next process reads the whole journal."""
        families: dict[str, Metric] = {}
        for kind, figures in self._newest.items():
            for path, value in figures.items():
                name = re.sub(r"\W", "_", "_".join(("spade", kind, *path[:1], *path[2:])), flags=re.ASCII)
                family = families.setdefault(name, GaugeMetricFamily(name, "docs/metrics.md"))
                family.add_sample(name, {"run": self._run, **({"name": path[1]} if path[1:] else {})}, value)
        records = CounterMetricFamily("spade_records", "Rows of metrics.jsonl", labels=("run", "kind"))
        for kind, count in self._records.items():
            records.add_metric((self._run, kind), count)
        # Replace the list as a whole, so that a scrape in another thread sees all old or all new figures.
        self._metrics = [*families.values(), records]
        return {}

    def collect(self) -> Iterable[Metric]:
        """Return the metrics of a scrape, for the registry."""
        return self._metrics

    def close(self) -> None:
        """See `Sink`."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
