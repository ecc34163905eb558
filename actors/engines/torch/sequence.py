"""A sequence in flight: its request, its sampled tokens, and its end. Runs on the host."""

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
        # The most last tokens that a stop string can span. Each token is at least one byte of text.
        self._tail = max((len(text.encode()) for text in request.stop), default=-_SLACK) + _SLACK

    def push(
        self,
        tokens: list[int],
        logprobs: list[float],
        version: int,
        end_ids: frozenset[int],
        decode: Callable[[list[int]], str],
    ) -> Finish | None:
        """Append sampled tokens, up to the one that ends the sequence. Return the reason for the end, or None."""
        left = self.request.max_tokens - len(self.logprobs)
        finish: Finish | None = "length" if len(tokens) >= left else None
        count = min(len(tokens), left)
        stopped = self._count_to_stop(tokens[:count], end_ids, decode)
        if stopped is not None:
            count, finish = stopped, "stop"
        self.tokens += tokens[:count]
        self.logprobs += logprobs[:count]
        if self._versions and self._versions[-1][0] == version:
            self._versions[-1] = (version, self._versions[-1][1] + count)
        else:
            self._versions.append((version, count))
        return finish

    def _count_to_stop(
        self, tokens: list[int], end_ids: frozenset[int], decode: Callable[[list[int]], str]
    ) -> int | None:
        """Return the number of new tokens up to the first that stops the sequence, or None if none does."""
        if not self._tail and end_ids.isdisjoint(tokens):
            return None
        recent = self.tokens[max(self.prompt, len(self.tokens) - self._tail) :] + tokens
        for end in range(len(recent) - len(tokens) + 1, len(recent) + 1):
            text = decode(recent[max(0, end - self._tail) : end]) if self._tail else ""
            if recent[end - 1] in end_ids or any(stop in text for stop in self.request.stop):
                return end - len(recent) + len(tokens)
        return None

    def result(self, finish: Finish) -> Generated:
        """Return the answer to the request."""
        ids, logprobs = pack_ids(self.tokens[self.prompt :]), pack_floats(self.logprobs)
        return Generated(ids, logprobs, tuple(self._versions), finish)
