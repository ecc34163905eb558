"""Errors that are sent to a client."""

from spade.errors import SpadeError

LATER_S = 2
"""Seconds after which a client may try again if it was refused because the gateway is full."""


class AskError(SpadeError):
    """A request that is not served: HTTP's status, the error, the field to blame, and OpenAI's code for it."""

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code


def make_bad_request_error(message: str, param: str | None = None, code: str | None = None) -> AskError:
    """Return the error for a request that no OpenAI-compatible server could serve."""
    return AskError(400, message, param, code)
