"""Count unforeseen errors while a service serves one request. Such an error fails only the request, and the service
goes on."""

import logging
from collections import Counter

from spade.decoding import make_printable
from spade.protocol import AnyRequest, Refused

log = logging.getLogger(__name__)


class RequestFaults:
    """A counter of the unforeseen errors of one service."""

    def __init__(self) -> None:
        self._kinds: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """Return the number of errors of all kinds since the service started."""
        return self._kinds.total()

    def refusal(self, request: AnyRequest, error: Exception) -> Refused:
        """Count the error, and return the answer to its request.

        An error of the system (no descriptor, memory or space left) does not put the request under suspicion.
        """
        return Refused(self.note(request, error), unforeseen=not isinstance(error, OSError))

    def note(self, asked: object, error: Exception) -> str:
        """Count the error under the type of `asked`, and describe it in one line.

        Only the 1st, 2nd, 4th, 8th … error of a kind is logged with a traceback, so that errors cannot fill the disk.
        """
        kind = f"{type(asked).__name__} ended in an unforeseen {type(error).__name__}"
        self._kinds[kind] += 1
        count, words = self._kinds[kind], make_printable(error)
        if count & (count - 1) == 0:
            log.error("%s, %d times so far; the last: %s", kind, count, words, exc_info=error)
        return f"{kind}: {words}"
