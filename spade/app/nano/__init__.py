"""Builds and measures the nano model."""

LAYERS = 4
"""Number of layers of the models that ship."""
