"""Plays of the model: their settings, their voices (the sources of the model's answers), their episodes, and the
examiner, which plays the items of suites."""
