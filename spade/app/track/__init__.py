"""Trackers give the figures of a run to other tools. They follow its journal, and the run never waits for them."""
