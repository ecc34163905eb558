"""Errors that reach a person.

    SpadeError            one clear line: what, where, what to do
    ├── ConfigError       a setting that is unknown, of the wrong type or in conflict with another
    ├── BusError          a peer that cannot be reached or does not answer
    │   ├── RefusedError  a peer that refused a request: final
    │   └── SuspectError  a service that ended, or met an unforeseen error, while it served this very request
    ├── WeightsError      parameters that differ from the published ones
    └── RunError          a run directory or store that cannot be used as asked

A failed episode is data, not an exception. A broken invariant is an ordinary Python exception and a crash.
"""

import os
import re

LONE_SURROGATE = "it has a lone surrogate, which is half of a character"
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf]")  # a surrogate as UTF-8 would encode it


class SpadeError(Exception):
    """Base of all errors that a user sees as one line and a non-zero exit."""


def format_reason(error: BaseException) -> str:
    """Return the text of an error, without the system's error number and without bytes that are not text."""
    match error:
        case OSError(strerror=str(words)):
            return words
        case OSError(args=[[(_, _, str(words)), *_]]):  # shutil's, for several files
            return words
        case UnicodeDecodeError(object=bytes(data), start=int(at)) if _SURROGATE.match(data, at):
            return f"is not UTF-8 text: {LONE_SURROGATE}"
        case UnicodeDecodeError():
            return "is not UTF-8 text"
        case UnicodeEncodeError():
            return LONE_SURROGATE
    return str(error)


def format_placed(error: BaseException) -> str:
    """Return the reason of an error, after the name of its file if the system gives one."""
    where = getattr(error, "filename", None)
    place = "" if where is None or isinstance(where, int) else f"{os.fsdecode(where)}: "
    return f"{place}{format_reason(error)}"


class ConfigError(SpadeError):
    """A configuration that cannot be used. The text names the field's path."""


class BusError(SpadeError):
    """A peer that refused us, or did not answer within the deadline."""


class RefusedError(BusError):
    """A peer answered Refused. Asking again will not help, unlike after any other BusError."""


class SuspectError(BusError):
    """A service ended, or met an unforeseen error, while it served this very request.

    The first time may be chance, because services get killed. The second time the request itself is blamed.
    """


class WeightsError(SpadeError):
    """Parameters that differ from the published ones. Loading them again may help."""


class RunError(SpadeError):
    """A run directory, store or checkpoint that cannot be used as asked."""
