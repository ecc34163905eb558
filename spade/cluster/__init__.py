"""Processes on the machines of a cluster, kept by a supervisor as its own are."""
