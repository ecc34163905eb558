"""Errors that a client is told."""

from spade.errors import SpadeError

LATER_S = 2
"""Seconds after which a client that was refused for want of room may try again."""


class AskError(SpadeError):
    """A request that is not served: HTTP's status, what is wrong, the field to blame, and OpenAI's word for it."""

    def __init__(self, status: int, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code


def bad(message: str, param: str | None = None, code: str | None = None) -> AskError:
    """A request that no server like this could serve."""
    return AskError(400, message, param, code)
