"""Readers of a store, whether its service is up or not: read, verify, trace, export, import."""
