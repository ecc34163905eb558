"""Format all log lines, and handle lines that cannot be written."""

import io
import logging
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from spade.disk import open_to_append
from spade.errors import format_reason
from spade.processes.rate_limit import RateLimitFilter
from spade.text import as_line, make_visible


class LineFormatter(logging.Formatter):
    """A formatter of one line for each record, with the traceback of a bug below it.

    The time and the process's `name` stand before each line. If `name` is "", the line is the message alone.
    """

    def __init__(self, name: str = "") -> None:
        before = f"%(asctime)s {name.replace('%', '%%')} %(levelname)s %(name)s: " if name else ""
        super().__init__(f"{before}%(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """Return the record's line."""
        return as_line(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802
        """Return the traceback that stands below the line."""
        return make_visible(super().formatException(ei))


class File(logging.FileHandler):
    """A handler that appends to a file.

    Lost lines (on a full disk, for example) are reported once, on standard error.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, encoding="utf-8")
        self._reported = False

    def _open(self) -> io.TextIOWrapper:
        return io.TextIOWrapper(open_to_append(Path(self.baseFilename)), encoding="utf-8", errors=self.errors)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        """Handle an error that `emit` raised."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._reported:
            self._reported = True
            with suppress(OSError):
                sys.stderr.write(as_line(f"{self.baseFilename}: lines are lost ({format_reason(error)})") + "\n")


def forget_unwritten() -> None:
    """Drop unwritten output of the standard streams.

    The interpreter would otherwise retry at exit, and change the exit code.
    """
    for number, stream in (1, sys.stdout), (2, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def warn_plainly() -> None:
    """Let a process that has no log write its warnings to standard error, without a prefix."""
    if logging.lastResort:
        logging.lastResort.setFormatter(LineFormatter())


def begin(name: str, handlers: Iterable[logging.Handler] = ()) -> None:
    """Log this process under `name` to `handlers`, or to standard error. Python's warnings are logged too."""
    given = list(handlers) or [logging.StreamHandler(sys.stderr)]
    for handler in given:
        handler.setFormatter(handler.formatter or LineFormatter(name))
        handler.addFilter(RateLimitFilter())
    logging.basicConfig(level=logging.INFO, handlers=given)
    logging.captureWarnings(True)
