"""Backends: the arithmetic of a learner step, on one process or several."""
