"""SwanLab: uploads a run if SWANLAB_MODE is online. Otherwise the run directory keeps the data for `swanlab sync`.

If the process is killed, records that SwanLab had not written are lost. So each tracker gives the whole journal, in a
new folder.
"""

import os
import shutil

import swanlab

from spade.app.track.records import JournalRecord
from spade.app.track.sink import PROJECT, Sink, SinkPlace, choose_mode
from spade.text import quote


class SwanlabSink(Sink):
    """Writes figures named `KIND/FIGURE` and events as texts. A step of SwanLab is a line of the journal."""

    def __init__(self, place: SinkPlace) -> None:
        mode = choose_mode("SWANLAB_MODE") or "offline"
        shutil.rmtree(place.folder, ignore_errors=True)  # data of an earlier tracker, which this tracker writes again
        place.folder.mkdir()
        swanlab.init(
            project=os.environ.get("SWANLAB_PROJECT", PROJECT),
            experiment_name=place.name,
            id=place.id,
            resume="allow",
            mode=mode,
            logdir=str(place.folder),
            config=place.list_settings(),
        )
        self.shown = (
            f"`swanlab sync {quote(place.folder)}/*` uploads it" if mode == "offline" else f"SWANLAB_MODE is {mode}"
        )

    def write(self, record: JournalRecord) -> None:
        """See `Sink`."""
        texts = {record.kind: swanlab.Text(record.text)} if record.text else {}
        swanlab.log({**record.named_figures, **texts}, step=record.number)

    def close(self) -> None:
        """See `Sink`."""
        swanlab.finish()
