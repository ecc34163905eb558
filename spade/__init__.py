"""SPADE: asynchronous self-play for language models in environments they design themselves.

Python programs use `open_run`, `start` and `evaluate` (docs/python.md). These functions are imported on first use.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spade.app.door import evaluate, open_run, start

__version__ = "0.1.0"
__all__ = ["evaluate", "open_run", "start"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from spade.app import door

        return getattr(door, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
