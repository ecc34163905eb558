"""Errors that nobody foresaw while a service served one request: the request's fault, and not the service's end."""

import logging
from collections import Counter

from spade.decoding import printable
from spade.protocol import AnyRequest, AuditJob, Refused

log = logging.getLogger(__name__)


class RequestFaults:
    """Those of one service, `total` of them since its start."""

    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """All of them, of whatever kind."""
        return self._kinds.total()

    def refusal(self, request: AnyRequest, error: Exception) -> Refused:
        """Count the error and make it the answer to its request.

        An error of the system (no descriptor, no memory, no space) says nothing of the request.
        """
        return Refused(self.note(request, error), unforeseen=not isinstance(error, OSError))

    def note(self, asked: AnyRequest | AuditJob, error: Exception) -> str:
        """Count the error; what happened, in a line.

        The log has the traceback of the 1st, 2nd, 4th, 8th … of a kind: what a model writes must not fill the disk.
        """
        kind = f"{type(asked).__name__} ended in {type(error).__name__}"
        self._kinds[kind] += 1
        count, words = self._kinds[kind], printable(error)
        if count & (count - 1) == 0:
            log.error("%s, which nobody foresaw, %d times so far; the last: %s", kind, count, words, exc_info=error)
        return f"{kind}, which nobody foresaw: {words}"
