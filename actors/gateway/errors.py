"""Errors that are sent to a client."""

from spade.errors import SpadeError

LATER_S = 2
"""Seconds after which a client may try again if it was refused because the gateway is full."""


class AskError(SpadeError):
    """The HTTP error that a client gets. `param` names the field at fault. `code` is OpenAI's code for the error."""

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code


def make_bad_request_error(message: str, param: str | None = None, code: str | None = None) -> AskError:
    """Return the error (status 400) for a request that is malformed or asks for something that is not supported."""
    return AskError(400, message, param, code)
