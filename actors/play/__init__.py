"""A play of the model: its settings, its voice, its episode, and the examiner, which plays the items of suites."""
