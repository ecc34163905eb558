"""Processes on the machines of a cluster. A supervisor starts and restarts them like local processes."""
