"""Errors that reach a person.

    SpadeError            one clear line: what, where, what to do
    ├── ConfigError       a setting that is unknown, of the wrong type or in conflict with another
    ├── BusError          a peer that cannot be reached or does not answer
    │   ├── RefusedError  a peer that answered, and said no: final
    │   └── SuspectError  a service that ended, or met an unforeseen error, while it served this very request
    ├── WeightsError      parameters that are not those that were published
    └── RunError          a run directory or store that cannot be used as asked

A failed episode is data and no exception; a broken invariant is an ordinary Python exception and a crash.
"""


class SpadeError(Exception):
    """Base of everything a user may see as one line and a non-zero exit."""


def reason(error: BaseException) -> str:
    """The error in words: without the number of the system's error, or bytes that are not text."""
    match error:
        case OSError(strerror=str(words)):
            return words
        case OSError(args=[[(_, _, str(words)), *_]]):  # shutil's, of several files
            return words
        case UnicodeDecodeError():
            return "is not UTF-8 text"
    return str(error)


class ConfigError(SpadeError):
    """A configuration that cannot be used; the text names the field's path."""


class BusError(SpadeError):
    """A peer refused us, or did not answer within the deadline."""


class RefusedError(BusError):
    """A peer answered Refused: asking again will not help. Any other BusError may pass."""


class SuspectError(BusError):
    """A service ended, or met an unforeseen error, while it served this very request.

    Once is chance: services are killed. A second time the request itself is taken for the cause.
    """


class WeightsError(SpadeError):
    """Parameters that are not those that were published. Loading them anew may help."""


class RunError(SpadeError):
    """A run directory, store or checkpoint that cannot be used as asked."""
