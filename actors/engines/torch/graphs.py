"""Several decode steps in one trip to the GPU, each a CUDA graph over a bucket of rows.

A step reads its rows from a static buffer, computes their logits, samples their next tokens, and writes these back into
the buffer for the next step. So the host uploads one array for a trip and downloads one. On other devices than a GPU,
the same steps run as plain calls.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from actors.engines.torch.flash import FlashCall
from actors.engines.torch.forward import Forward
from actors.engines.torch.kv_store import KvStore
from actors.engines.torch.plan import AttentionGroup, TokenChunk
from actors.engines.torch.sampling import invert_in_blocks, truncate_logprobs
from spade.policy.logprobs import log_distribution
from spade.protocol import Generate

TRIP = 8  # most decode steps of a trip
# Rows of the buffer, followed by TRIP rows of uniform numbers. A float64 holds each of these numbers exactly.
_TOKEN, _POSITION, _START, _SIZE, _TEMPERATURE, _TOP_P, _TOP_K = range(7)
_FIELDS = 7
_ALL = 2.0  # used as top_p to switch nucleus sampling off: no rounded sum of probabilities reaches it


class DecodeRow(NamedTuple):
    """One sequence of a trip."""

    token: int
    """The newest token of the sequence. Its keys are not stored yet."""

    chunk: TokenChunk
    """The places of this token and of the tokens that the trip samples."""

    request: Generate
    """The request, which says how to sample."""


class DecodePlan:
    """The plan of a forward with one token per row, computed on the device; see `kv_store.StorePlan`."""

    groups: Sequence[AttentionGroup] = ()

    def __init__(self, positions: Tensor, start: Tensor, size: Tensor, most_keys: int) -> None:
        self.positions = positions
        self.windows: set[int | None] = set()
        self._start, self._size, self._most_keys = start, size, most_keys
        self._places: dict[int, Tensor] = {}
        self._calls: dict[int, list[FlashCall]] = {}

    def places(self, heads: int) -> Tensor:
        """See `plan.Plan.places`."""
        if heads not in self._places:
            head = torch.arange(heads, device=self.positions.device)
            first = self._start[:, None] * heads + self._size[:, None] * head
            self._places[heads] = (first + self.positions[:, None]).flatten()
        return self._places[heads]

    def calls(self, heads: int) -> list[FlashCall]:
        """See `plan.Plan.calls`."""
        if heads not in self._calls:
            places = self.places(heads)
            position = self.positions[:, None].expand(-1, heads).flatten()
            queries = torch.arange(len(places) + 1, dtype=torch.int32, device=places.device)
            keys = pad(places - position, (0, 1)).int()
            counts = (position + 1).int()
            self._calls[heads] = [FlashCall(None, queries, keys, counts, 1, self._most_keys)]
        return self._calls[heads]


class Decoder:
    """Samples several tokens of each row in a trip, from a forward over a store."""

    def __init__(
        self, forward: Forward, cache: KvStore, context_tokens: int, vocabulary: int, device: torch.device
    ) -> None:
        self._forward = forward
        self._cache = cache
        self._context = context_tokens
        self._vocabulary = vocabulary
        self._device = device
        self._pool: Any = None
        self._steps: dict[tuple[int, bool], _Step] = {}

    def decode(
        self, rows: Sequence[DecodeRow], uniforms: NDArray[np.float64]
    ) -> tuple[list[list[int]], list[list[float]]]:
        """Sample several tokens of each row: one token for each of `uniforms` (steps, rows), in [0, 1).

        At most TRIP steps. Returns the tokens and their log-probabilities, by row. The steps do not notice when a
        sequence ends: ignore the tokens after its end.
        """
        steps, count = uniforms.shape
        size = round_up(count)
        packed = np.zeros((_FIELDS + TRIP, size))
        packed[:_FIELDS] = np.array([0, 0, *self._cache.spare, 1, _ALL, self._vocabulary])[:, None]
        step = self._open_step(packed, cut=any(row.request.top_p < 1 or row.request.top_k > 0 for row in rows))
        packed[:_FIELDS, :count] = np.array([self._pack(row) for row in rows]).T
        packed[_FIELDS : _FIELDS + steps, :count] = uniforms
        tokens, logprobs = step.run(packed, steps)[:, :, :count].transpose(0, 2, 1)
        return tokens.astype(np.int64).tolist(), logprobs.tolist()

    def _open_step(self, spare: NDArray[np.float64], *, cut: bool) -> "_Step":
        """Return the step for this number of rows. Captures a new step with the rows of `spare`, which nobody reads."""
        key = spare.shape[1], cut
        if key not in self._steps:
            step = self._steps[key] = _Step(spare, self._device, partial(self._compute, cut=cut))
            if self._device.type == "cuda":
                self._pool = step.capture(self._pool)
        return self._steps[key]

    def _pack(self, row: DecodeRow) -> tuple[float, ...]:
        _, extent, position, _ = row.chunk
        one = row.request
        top_k = min(one.top_k or self._vocabulary, self._vocabulary)
        return row.token, position, *extent, one.temperature, one.top_p if one.top_p < 1 else _ALL, top_k

    def _compute(self, step: "_Step", *, cut: bool) -> None:
        """Compute one step. Reads its buffer, and writes to its buffer and its results."""
        token, position, start, size = step.buffer[:_TEMPERATURE].long()
        self._cache.plan = DecodePlan(position, start, size, self._context)
        logits = self._forward(token, self._cache, step.keep)
        logprobs = log_distribution(logits, step.buffer[_TEMPERATURE].float()[:, None])
        if cut:
            top_p, top_k = step.buffer[_TOP_P].float(), step.buffer[_TOP_K].long()
            whole = (top_p >= _ALL) & (top_k >= self._vocabulary)
            logprobs = torch.where(whole[:, None], logprobs, truncate_logprobs(logprobs, top_p, top_k))
        ids = invert_in_blocks(logprobs, step.buffer[_FIELDS:].index_select(0, step.number)[0])
        sampled = torch.stack((ids.double(), logprobs.gather(-1, ids).double())).transpose(1, 2)
        step.results.index_copy_(1, step.number, sampled)
        step.buffer[_TOKEN].copy_(ids[:, 0])
        step.buffer[_POSITION].add_(1)
        step.number.add_(1)


class _Step:
    """A step with its static tensors."""

    def __init__(self, packed: NDArray[np.float64], device: torch.device, compute: "Callable[[_Step], None]") -> None:
        size = packed.shape[1]
        self.buffer = torch.from_numpy(packed).to(device, copy=True)
        self.results = torch.zeros(2, TRIP, size, dtype=torch.float64, device=device)
        self.number = torch.zeros(1, dtype=torch.int64, device=device)
        self.keep = torch.arange(size, device=device)
        self._compute = compute
        self._graph: torch.cuda.CUDAGraph | None = None

    def capture(self, pool: Any) -> Any:
        """Run the step once, then capture it as a graph. Return the memory pool, which captured steps share."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self._compute(self)
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        # With this mode, other threads may use the GPU during the capture.
        with torch.cuda.graph(self._graph, pool, stream, capture_error_mode="thread_local"):
            self._compute(self)
        return self._graph.pool()

    def run(self, packed: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
        """Run some steps from `packed`. Return (2, steps, size): tokens and log-probabilities."""
        self.buffer.copy_(torch.from_numpy(packed))
        self.number.zero_()
        for _ in range(steps):
            if self._graph is None:
                self._compute(self)
            else:
                self._graph.replay()
        found: NDArray[np.float64] = self.results[:, :steps].cpu().numpy()
        return found


def round_up(rows: int) -> int:
    """Round a number of rows up to the size of a bucket: a multiple of an eighth of the next power of two."""
    return -(-rows // (unit := max(1, (1 << (rows - 1).bit_length()) // 8))) * unit
