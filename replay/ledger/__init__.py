"""The rules of a run: its work, windows, batches and versions. Pure: no I/O, no clock."""
