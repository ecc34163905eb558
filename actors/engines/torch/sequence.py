"""A sequence in flight: its request, its sampled tokens, and its end. Host side."""

from collections.abc import Callable

from spade.codec import pack_floats, pack_ids, unpack_ids
from spade.protocol import Finish, Generate, Generated

_SLACK = 4  # most tokens that one character may be split into


class SequenceInFlight:
    """A request being sampled. `tokens` are the prompt and the sampled tokens.

    The keys of the first `filled` tokens are stored in `entry`.
    """

    def __init__(self, id: int, request: Generate) -> None:
        self.id = id
        self.request = request
        self.tokens: list[int] = unpack_ids(request.prompt).tolist()
        self.prompt = len(self.tokens)
        self.entry = -1
        self.filled = 0
        self.logprobs: list[float] = []
        self._versions: list[tuple[int, int]] = []
        # Each token is at least one byte of text.
        self._tail = max((len(text.encode()) for text in request.stop), default=-_SLACK) + _SLACK

    def push(self, token: int, logprob: float, version: int) -> None:
        """Append a sampled token."""
        self.tokens.append(token)
        self.logprobs.append(logprob)
        if self._versions and self._versions[-1][0] == version:
            self._versions[-1] = (version, self._versions[-1][1] + 1)
        else:
            self._versions.append((version, 1))

    def finish(self, end_ids: frozenset[int], decode: Callable[[list[int]], str]) -> Finish | None:
        """Return the reason why the newest token ended the sequence, or None."""
        if self.tokens[-1] in end_ids:
            return "stop"
        if self._tail:
            text = decode(self.tokens[max(self.prompt, len(self.tokens) - self._tail) :])
            if any(stop in text for stop in self.request.stop):
                return "stop"
        return "length" if len(self.logprobs) == self.request.max_tokens else None

    def result(self, finish: Finish) -> Generated:
        """Return the answer to the request."""
        ids, logprobs = pack_ids(self.tokens[self.prompt :]), pack_floats(self.logprobs)
        return Generated(ids, logprobs, tuple(self._versions), finish)
