"""Trackers: the figures of a run in the tools of others. Each follows the run's journal, outside of its loop."""
