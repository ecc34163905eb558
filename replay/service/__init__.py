"""The replay service: the process that takes requests, commits, answers, and says how the run is."""
