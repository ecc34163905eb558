"""Backends compute a learner step on one process or several."""
