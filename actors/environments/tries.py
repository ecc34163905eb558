"""Try a play of an audit again if a try proves nothing."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from spade.protocol import Faulted, Observed

TRIES = 3

Result = TypeVar("Result")


class UndecidedError(Exception):
    """A try proved nothing. `ours` is True if the program is not to blame."""

    def __init__(self, ours: bool) -> None:
        self.ours = ours


def check_decided(last: Observed | Faulted) -> None:
    """Raise UndecidedError if a play with this last answer proves nothing: a timeout, or a fault of our own."""
    if isinstance(last, Faulted) and (last.kind == "timeout" or not last.environment_fault):
        raise UndecidedError(ours=last.kind != "timeout")


async def try_until_decided(once: Callable[[], Awaitable[Result]]) -> Result:
    """Return the first result of up to TRIES tries.

    Raises UndecidedError if no try has a result. The error is `ours` if any try failed by our own fault.
    """
    ours = False
    for _ in range(TRIES):
        try:
            return await once()
        except UndecidedError as undecided:
            ours = ours or undecided.ours
    raise UndecidedError(ours)
