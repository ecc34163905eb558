"""SPADE: asynchronous self-play for language models in environments they design themselves."""

__version__ = "0.1.0"
