"""The replay service: the run's ledger of work, its trajectories, its environments, and the one durable store."""
