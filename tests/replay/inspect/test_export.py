"""Rows of an export have every field of the stored records."""

from replay.inspect.export import RecordingRow, convert_row
from spade.protocol import Recording, ToolCall


def test_a_recording_is_exported_with_its_tool_calls():
    calls = ((ToolCall("search", '{"query": "lamp"}'),),)
    recording = Recording(actions=("look",), answers=bytes(32), max_turns=3, calls=calls)
    assert convert_row(recording) == RecordingRow(("look",), [bytes(16).hex()] * 2, 3, calls)
