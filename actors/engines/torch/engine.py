"""The embedded engine: any Transformers causal language model with a key-value cache, on the CPU or one GPU.

Every step packs two kinds of tokens into one forward (`plan`): the next token of each sequence, and the prompts of
newly admitted ones. It samples for each sequence with a complete prompt. A sequence that ended leaves its keys and
values in its entry of the store. A request that begins with the same tokens, such as the next turn of an episode,
reuses them and computes only the rest. On a GPU, several steps without prompts run in one trip (`graphs`).
"""

from collections import deque
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tokenizers
import torch
from torch import Tensor

from actors.engines.base import explain_misfit
from actors.engines.torch import flash
from actors.engines.torch.buddy import compute_size
from actors.engines.torch.dense import Dense
from actors.engines.torch.forward import compute_alone, open_forward
from actors.engines.torch.graphs import TRIP, Decoder, DecodeRow
from actors.engines.torch.kv_memory import KvMemory, limit_kv_bytes
from actors.engines.torch.plan import Plan, TokenChunk
from actors.engines.torch.sampling import draw_uniforms, sample
from actors.engines.torch.sequence import SequenceInFlight
from spade.config import Engine as Settings
from spade.policy import model as policy
from spade.policy.canary import next_logprobs
from spade.processes.memory import trim
from spade.protocol import Generate, Generated, Weights
from spade.tokens import Tokenizer


class ForwardBounds(NamedTuple):
    """Bounds of one forward on a kind of device."""

    prompt_tokens: int
    """Most prompt tokens in one forward. A low bound keeps sequences in flight from waiting long."""

    spare: int
    """Padding allowed in a group of chunks, in products of queries and keys; see `plan.group_chunks`."""


_PACE = {"cpu": ForwardBounds(512, 4_096), "cuda": ForwardBounds(16_384, 1 << 20)}
_ENTRIES = 2  # cache entries for each row: one for a sequence in flight, one for an idle conversation


class TorchEngine:
    """See `base.Engine`. All keys and values lie within `engine.kv_bytes`.

    When this memory is full, the engine drops the keys that have been idle longest. If sequences in flight use all
    keys, requests wait in the queue. If sequences in flight outgrow the memory, the one admitted last returns to the
    front of the queue and keeps its sampled tokens.
    """

    def __init__(self, weights: Weights, settings: Settings, dtype: str) -> None:
        """Load `weights`. An empty digest is not checked.

        Raises WeightsError if the folder holds other weights, RunError if it holds no whole model, ConfigError if the
        model cannot run here.
        """
        self.version = weights.version
        self.sampled = 0
        self._prompt_tokens = self._kept_tokens = self._repeated_tokens = self._padding_tokens = 0
        self._rows, self._context = settings.rows, settings.context_tokens
        self._device = policy.pick_device(settings.device)
        self._pace = _PACE.get(self._device.type, _PACE["cuda"])
        self._waiting: deque[SequenceInFlight] = deque()
        self._active: dict[int, SequenceInFlight] = {}  # sequences in flight by cache entry, in the order of admission
        self._steps = 0
        self._end_ids = Tokenizer.load(Path(weights.path)).end_ids
        bpe = tokenizers.Tokenizer.from_file(str(Path(weights.path) / "tokenizer.json"))
        self._decode = partial(bpe.decode, skip_special_tokens=False)
        self._digest = weights.digest
        self._model = policy.load(Path(weights.path), dtype=dtype, device=self._device, digest=weights.digest or None)
        self._forward, probe = open_forward(self._model, self._context)
        kv_bytes = limit_kv_bytes(settings.kv_bytes, self._device.type)
        self._memory = KvMemory(_ENTRIES * self._rows, self._context, kv_bytes, probe)
        self._vocabulary: int = self._model.config.get_text_config().vocab_size
        self._decoder = self._open_decoder()
        trim()  # free the memory that the comparison in float32 took

    def _open_decoder(self) -> Decoder | None:
        """Open a decoder of several tokens in one trip. Returns None if it cannot run the model on this device."""
        forward = self._forward
        if not isinstance(forward, Dense) or not flash.can_run(self._device, self._model.dtype, forward.dim):
            return None
        return Decoder(forward, self._memory.cache, self._context, self._vocabulary, self._device)

    @property
    def busy(self) -> bool:
        return bool(self._active or self._waiting)

    @property
    def active(self) -> int:
        return len(self._active)

    @property
    def queued(self) -> int:
        return len(self._waiting)

    def gauges(self) -> dict[str, float]:
        return {
            "sampled_tokens": self.sampled,
            "prompt_tokens": self._prompt_tokens,
            "kept_tokens": self._kept_tokens,
            "repeated_tokens": self._repeated_tokens,
            "padding_tokens": self._padding_tokens,
        }

    def refusal(self, request: Generate) -> str | None:
        return explain_misfit(request, self._context, self._vocabulary)

    def submit(self, id: int, request: Generate) -> None:
        self._waiting.append(SequenceInFlight(id, request))

    def cancel(self, id: int) -> None:
        self._waiting = deque(row for row in self._waiting if row.id != id)
        for row in [row for row in self._active.values() if row.id == id]:
            self._release(row)

    def close(self) -> None:
        """Do nothing: the engine opened no processes and no connections."""

    def load_weights(self, weights: Weights) -> None:
        if weights.digest != self._digest:
            policy.refill(self._model, Path(weights.path), weights.digest)
            self._digest = weights.digest
            self._memory.prefixes.forget()
            trim()
        self.version = weights.version

    @torch.inference_mode()
    def logprobs(self, ids: Sequence[int]) -> list[float]:
        return next_logprobs(compute_alone(self._forward, torch.tensor(ids, device=self._device)), ids)

    @torch.inference_mode()
    def step(self) -> list[tuple[int, Generated]]:
        self._steps += 1
        self._grow()
        self._admit()
        if self._decoder is not None and all(len(row.tokens) == row.filled + 1 for row in self._active.values()):
            return self._decode_trip(self._decoder)
        chunks = self._next_chunks()
        if not chunks:
            return []
        self._memory.prefixes.reserve(max(chunk.end for chunk in chunks))
        return self._sample(*self._compute(Plan(chunks, self._pace.spare, self._device)))

    def _grow(self) -> None:
        """Make room for the newest token of every sequence in flight.

        If there is too little room, the sequences admitted last go back to the front of the queue.
        """
        for row in list(self._active.values()):
            while self._active.get(row.entry) is row and not self._memory.fit(row.entry, len(row.tokens), self._active):
                last = self._active[next(reversed(self._active))]
                self._release(last)
                self._waiting.appendleft(last)

    def _admit(self) -> None:
        """Admit sequences in queue order. Skip those that wait for keys that another sequence is computing."""
        held = []
        while self._waiting and len(self._active) < self._rows:
            row = self._waiting.popleft()
            prompt = np.array(row.tokens, dtype=np.int32)
            wanted = self._memory.place(prompt, self._active)
            placement = wanted and self._memory.admit(wanted, prompt, self._active)
            if placement is None:
                held.append(row)
                if wanted is None:
                    continue
                break  # otherwise smaller sequences behind it in the queue would keep taking the room that it needs
            row.entry, row.filled = placement.entry, placement.tokens
            self._active[row.entry] = row
            self._prompt_tokens += len(prompt)
            self._kept_tokens += placement.tokens
            self._repeated_tokens += placement.outdated
        self._waiting.extendleft(reversed(held))

    def _next_chunks(self) -> list[TokenChunk]:
        """Choose the work of this step: every sequence's newest token, and at most `_pace.prompt_tokens` of prompts."""
        left = self._pace.prompt_tokens
        chunks = []
        for row in self._active.values():
            count = len(row.tokens) - row.filled
            if count > 1:
                count = min(count, left)
                left -= count
            if count:
                chunks.append(self._memory.chunk(row.entry, row.filled, count))
        return chunks

    def _compute(self, plan: Plan) -> tuple[list[SequenceInFlight], Tensor]:
        """Run the model. Return the rows that need their next token, and their logits (rows, vocabulary)."""
        ids: list[int] = []
        due: list[SequenceInFlight] = []
        last: list[int] = []
        for entry, _, start, count in plan.chunks:
            row = self._active[entry]
            row.filled = start + count
            ids += row.tokens[start : row.filled]
            if row.filled == len(row.tokens):
                due.append(row)
                last.append(len(ids) - 1)
        packed = np.array(ids, dtype=np.int64)
        keep = torch.tensor(last, dtype=torch.int64, device=self._device)
        self._memory.cache.plan = plan
        logits = self._forward(torch.from_numpy(packed).to(self._device), self._memory.cache, keep)
        self._padding_tokens += plan.padding
        self._memory.prefixes.write(plan.entry, plan.position, packed, self._steps)
        return due, logits

    def _sample(self, rows: list[SequenceInFlight], logits: Tensor) -> list[tuple[int, Generated]]:
        if not rows:
            return []
        requests = [row.request for row in rows]
        tokens, logprobs = sample(
            logits,
            [request.temperature for request in requests],
            draw_uniforms([request.seed for request in requests], [len(row.logprobs) for row in rows]),
            [request.top_p for request in requests],
            [request.top_k for request in requests],
        )
        return self._push(rows, [[token] for token in tokens], [[logprob] for logprob in logprobs])

    def _decode_trip(self, decoder: Decoder) -> list[tuple[int, Generated]]:
        """Sample several tokens of every sequence in flight."""
        rows = list(self._active.values())
        if not rows:
            return []
        steps = self._count_trip(rows)
        seeds = [row.request.seed for row in rows]
        found = decoder.decode(
            [DecodeRow(row.tokens[-1], self._memory.chunk(row.entry, row.filled, steps), row.request) for row in rows],
            np.stack([draw_uniforms(seeds, [len(row.logprobs) + step for row in rows]) for step in range(steps)]),
        )
        ended = self._push(rows, *found)
        self._store(rows)
        return ended

    def _push(
        self, rows: Sequence[SequenceInFlight], tokens: Sequence[list[int]], logprobs: Sequence[list[float]]
    ) -> list[tuple[int, Generated]]:
        """Append sampled tokens to each row, up to its end. Release the rows that ended, and return their results."""
        ended = []
        for row, new, their_logprobs in zip(rows, tokens, logprobs, strict=True):
            before = len(row.tokens)
            finish = row.push(new, their_logprobs, self.version, self._end_ids, self._decode)
            self.sampled += len(row.tokens) - before
            if finish is not None:
                ended.append((row.id, row.result(finish)))
                self._release(row)
        return ended

    def _store(self, rows: Sequence[SequenceInFlight]) -> None:
        """Record that a trip stored the keys of all tokens except each row's newest one."""
        counts = [len(row.tokens) - 1 - row.filled for row in rows]
        self._memory.prefixes.reserve(max(len(row.tokens) for row in rows))
        self._memory.prefixes.write(
            np.repeat([row.entry for row in rows], counts),
            np.concatenate([np.arange(row.filled, len(row.tokens) - 1) for row in rows]),
            np.concatenate([row.tokens[row.filled : -1] for row in rows]),
            self._steps,
        )
        for row in rows:
            row.filled = len(row.tokens) - 1

    def _count_trip(self, rows: Sequence[SequenceInFlight]) -> int:
        """Return the number of tokens to sample in one trip. Every row has room for their keys."""
        longest = max(len(row.tokens) for row in rows)
        left = max(row.request.max_tokens - len(row.logprobs) for row in rows)
        steps = min(TRIP, left, compute_size(self._context) - longest + 1)
        ahead = steps - 1
        return steps if all(self._memory.fit(row.entry, len(row.tokens) + ahead, self._active) for row in rows) else 1

    def _release(self, row: SequenceInFlight) -> None:
        self._memory.prefixes.end(row.entry)
        del self._active[row.entry]
