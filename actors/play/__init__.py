"""A play of the model: its settings, its voice (the source of its answers), its episode, and the examiner, which plays
the items of suites."""
