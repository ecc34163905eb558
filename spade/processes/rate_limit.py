"""Limit the number of log lines of one kind, so that no peer can fill the log."""

import logging
from collections import Counter

_PERIOD_S = 10.0
_LINES = 100  # lines of one kind in a period
_KINDS = 1_024  # kinds that are counted separately; a kind is a message's text without its arguments


class RateLimitFilter(logging.Filter):
    """A filter that passes the first lines of each kind in a period.

    The first such line of the next period states the number of lines that were left out.
    """

    def __init__(self) -> None:
        super().__init__()
        self._until = 0.0
        self._lines: Counter[str] = Counter()
        self._before: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if the record should be written."""
        if record.created >= self._until:
            self._until = record.created + _PERIOD_S
            self._before = Counter({kind: count - _LINES for kind, count in self._lines.items() if count > _LINES})
            self._lines.clear()
        kind = f"{record.name} {record.msg}" if len(self._lines) < _KINDS else record.name
        self._lines[kind] += 1
        if missing := self._before.pop(kind, 0):
            record.msg = f"{record.msg} ({missing} more like it were not logged)"
        return self._lines[kind] <= _LINES
