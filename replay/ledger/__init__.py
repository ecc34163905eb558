"""What may happen to a run: its work, its windows, its batches, its versions. Pure: no I/O, no clock."""
