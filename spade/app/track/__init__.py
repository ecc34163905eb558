"""Trackers: give the figures of a run to other tools. Each follows the run's journal. The run never waits for it."""
