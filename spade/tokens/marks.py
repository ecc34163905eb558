"""The marks around a thought of a model."""

THINK, THOUGHT = "<think>", "</think>"
