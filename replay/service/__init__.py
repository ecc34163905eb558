"""The replay service: the process that takes requests, commits, answers, and reports the run's status."""
