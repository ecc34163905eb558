"""Processes on the machines of a cluster. A supervisor keeps them like its own processes."""
