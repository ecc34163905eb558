"""`spade replay`: inspect, verify, export and compact a run's store, or seed another run from the store."""
