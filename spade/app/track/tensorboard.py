"""TensorBoard: one file of events in the run directory.

The same record always gives the same bytes of an event. If a tracker is killed, the file has events after its last
commit. The next tracker cuts them off and writes the same bytes again, so a TensorBoard that reads meanwhile sees each
event once.
"""

import os

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.compat.proto.types_pb2 import DataType
from tensorboard.plugins.text.metadata import create_summary_metadata
from tensorboard.summary.writer.record_writer import RecordWriter

from spade.app.track.records import JournalRecord
from spade.app.track.sink import Memory, SinkPlace
from spade.disk import open_to_append
from spade.errors import RunError
from spade.text import quote


class TensorBoardSink:
    """Writes scalars named `KIND/FIGURE` by learner step, and events of the run as texts."""

    def __init__(self, place: SinkPlace) -> None:
        self.shown = f"`tensorboard --logdir {quote(place.folder)}` shows it"
        place.folder.mkdir(exist_ok=True)
        file, size = place.folder / "events.out.tfevents.0.spade", place.memory.get("bytes", 0)
        file.touch()
        if file.stat().st_size < size:
            raise RunError(f"{file}: lacks events; delete {place.folder}.json to track the run from its beginning")
        self._file = open_to_append(file)
        self._file.truncate(size)
        self._events = RecordWriter(self._file)
        if not size:
            self._events.write(Event(file_version="brain.Event:2").SerializeToString())

    def write(self, record: JournalRecord) -> None:
        """See `Sink`."""
        values = [Summary.Value(tag=name, simple_value=value) for name, value in record.named_figures.items()]
        if record.text:
            values.append(_text(record.kind, record.text))
        event = Event(wall_time=record.time, step=record.step, summary=Summary(value=values))
        self._events.write(event.SerializeToString())

    def commit(self) -> Memory:
        """See `Sink`."""
        self._file.flush()
        return {"bytes": os.fstat(self._file.fileno()).st_size}

    def close(self) -> None:
        """See `Sink`."""
        self._file.close()


def _text(tag: str, text: str) -> Summary.Value:
    """Make a value that TensorBoard shows among its texts."""
    value = Summary.Value(tag=tag, metadata=create_summary_metadata("", ""))
    value.tensor.dtype = DataType.DT_STRING
    value.tensor.tensor_shape.dim.add(size=1)
    value.tensor.string_val.append(text.encode())
    return value
