"""Trackers: the figures of a run in the tools of others. Each follows the run's journal and is no part of its loop."""
