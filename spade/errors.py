"""Errors that reach a person.

    SpadeError            one clear line: what, where, what to do
    ├── ConfigError       a setting that is unknown, of the wrong type or in conflict with another
    ├── BusError          a peer that cannot be reached or does not answer
    │   ├── RefusedError  a peer that refused a request: final
    │   └── SuspectError  a service that ended, or met an unforeseen error, while it served this very request
    ├── WeightsError      parameters that differ from the published ones
    └── RunError          a run directory or store that cannot be used as asked

A failed episode is data, not an exception. A broken invariant is an ordinary Python exception and a crash.

Each failure is classified once, at the boundary that can react to it:

    one request          actors/links/faults.py turns a service's unforeseen error into a refusal.
                         spade/transport/client.py turns the refusal into RefusedError or SuspectError, and silence into
                         BusError
    one play or design   Its actor tells the replay service, which leases the work again. A second SuspectError ends the
                         work: the play is void (replay/ledger/windows.py), or the program is rejected at the stage
                         `contain`
    one HTTP request     The gateway's AskError has the HTTP status
    one process          spade/processes/entry.py decides by the error whether a restart can help
    all processes        spade/processes/supervise.py restarts a process, or stops the run
    one command          spade/app/cli.py prints a SpadeError or OSError as one line

A nursery raises a group of errors, which no `except` clause of these boundaries matches. `unwrap_errors` prevents this.
"""

import os
import re
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trio import Nursery

LONE_SURROGATE = "it has a lone surrogate, which is half of a character"
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf]")  # the bytes that UTF-8 would have for a surrogate


class SpadeError(Exception):
    """Base of all errors that a user sees as one line and a non-zero exit."""


def format_reason(error: BaseException) -> str:
    """Return the text of an error, without the system's error number and without bytes that are not text."""
    match error:
        case OSError(strerror=str(words)):
            return words
        case OSError(args=[[(_, _, str(words)), *_]]):  # shutil raises this error for several files
            return words
        case UnicodeDecodeError(object=bytes(data), start=int(at)) if _SURROGATE.match(data, at):
            return f"is not UTF-8 text: {LONE_SURROGATE}"
        case UnicodeDecodeError():
            return "is not UTF-8 text"
        case UnicodeEncodeError():
            return LONE_SURROGATE
    return str(error)


def format_placed(error: BaseException) -> str:
    """Return the text of an error, after the name of its file if the system gives one."""
    where = getattr(error, "filename", None)
    place = "" if where is None or isinstance(where, int) else f"{os.fsdecode(where)}: "
    return f"{place}{format_reason(error)}"


class ConfigError(SpadeError):
    """A configuration that cannot be used. The text names the field's path."""


class BusError(SpadeError):
    """A peer that refused us, or did not answer within the deadline."""


class RefusedError(BusError):
    """A peer answered Refused. It would answer the same again, unlike after any other BusError."""


class SuspectError(BusError):
    """A service ended, or met an unforeseen error, while it served this very request.

    The first time may be a coincidence, because services get killed. After the second time, the request is blamed.
    """


class EvictedError(BusError):
    """An env-runner ended a play for memory, because the plays of its program took the most."""


class WeightsError(SpadeError):
    """Parameters that differ from the published ones. Loading them again may help."""


class RunError(SpadeError):
    """A run directory, store or checkpoint that cannot be used as asked."""


@asynccontextmanager
async def unwrap_errors(opening: "AbstractAsyncContextManager[Nursery]") -> AsyncIterator["Nursery"]:
    """Open a nursery for tasks that serve the block. They are cancelled at the end of the block.

    An error of the block is raised as it is. An error of a task is raised in a group.
    """
    failure: Exception | None = None
    async with opening as nursery:
        try:
            yield nursery
        except Exception as error:
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
