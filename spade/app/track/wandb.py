"""Weights & Biases: a run that is uploaded, or kept in the run directory for `wandb sync`.

If the process is killed, records that W&B had not written are lost. So each tracker reads the whole journal. Online, it
skips the records that W&B already has. Offline, it replaces the folder of an earlier tracker.
"""

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import wandb

from replay.inspect.environments import read_details
from replay.ledger.records import PlayRecord
from replay.store import open_reader
from spade.app.track.records import JournalRecord
from spade.app.track.sink import PROJECT, Sink, SinkPlace, choose_mode
from spade.errors import RunError, SpadeError
from spade.processes.commands import run_child
from spade.text import quote

MOST_PLAYS = 10_000
"""Most rows of the table of plays, because W&B shows no more. The plays of the newest environments are kept."""

REPORT_S = 60.0
"""Most seconds to write the report."""

log = logging.getLogger(__name__)

_ENVIRONMENTS = (
    "id", "name", "skill", "state", "win_rate_unhinted", "win_rate_hinted", "regret", "reward", "audit", "hint",
    "source",
)  # fmt: skip
_PLAYS = ("id", "environment", "hinted", "episode_return", "turns")


class WandbSink(Sink):
    """Writes figures named `KIND/FIGURE` over learner steps. A step of W&B is a line of the journal."""

    def __init__(self, place: SinkPlace) -> None:
        self._place = place
        mode = choose_mode("WANDB_MODE") or ("online" if wandb.login(prompt=False) else "offline")
        if mode == "offline":
            shutil.rmtree(place.folder, ignore_errors=True)
        place.folder.mkdir(exist_ok=True)
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", PROJECT),
                name=place.name,
                id=place.id,
                resume="allow",
                mode=mode,
                dir=place.folder,
                config=place.list_settings(),
                settings=wandb.Settings(console="off", silent=True, x_disable_stats=True, x_disable_machine_info=True),
            )
        except wandb.Error as error:
            raise RunError(f"WANDB_MODE = {mode}: {error}") from None
        self._run.define_metric("learner_step", hidden=True)
        self._run.define_metric("*", step_metric="learner_step")
        self.shown = (
            f"`wandb sync {quote(Path(self._run.dir).parent)}` uploads it" if self._run.offline else str(self._run.url)
        )

    def write(self, record: JournalRecord) -> None:
        """See `Sink`."""
        if record.number >= self._run.starting_step:
            texts = {record.kind: record.text} if record.text else {}
            self._run.log(
                {**record.named_figures, **texts, "learner_step": record.step, "_timestamp": record.time},
                step=record.number,
            )

    def close(self) -> None:
        """See `Sink`. If the run is down, first add two tables and the report for people."""
        if not self._place.run.holders():
            try:
                self._add_summary()
            except (SpadeError, subprocess.SubprocessError) as error:
                log.warning("the tables and the report are left out: %s", error)
        self._run.finish()

    def _add_summary(self) -> None:
        path = self._place.run.store
        with open_reader(path) as store:
            plays = [play for play in store.scan("plays", PlayRecord) if play.state == "finished"]
        kept = wandb.Artifact(f"run-{self._place.id}", "run")
        for name, columns, rows in (
            ("environments", _ENVIRONMENTS, read_details(path)),
            ("plays", _PLAYS, plays[-MOST_PLAYS:]),
        ):
            kept.add(wandb.Table(list(columns), [[getattr(row, column) for column in columns] for row in rows]), name)
        page = self._place.folder / "report.html"
        command = [sys.executable, "-P", "-m", "spade", "report", str(self._place.run.path), "--out", str(page)]
        run_child(command, check=True, capture_output=True, timeout=REPORT_S)
        kept.add_file(str(page))
        self._run.log_artifact(kept)
