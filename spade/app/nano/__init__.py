"""Builds and measures the nano model."""
