"""The embedded engine: any Transformers causal language model with a key-value cache, on the CPU or one GPU.

Every step packs the next token of each sequence and the prompts of those just admitted into one forward (`slots`), and
samples where a prompt is complete. A sequence that ended leaves its keys and values in its slot; a request that begins
with the same tokens (the next turn of an episode) takes them over and computes the rest only.
"""

from collections import deque
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from actors.engines.prefixes import Prefixes
from actors.engines.requests import unfit
from actors.engines.sampling import sample, uniforms
from actors.engines.slots import ATTENTION, Chunk, Plan, SlotCache
from spade.codec import pack_floats, pack_ids, unpack_ids
from spade.errors import ConfigError
from spade.policy import model as policy
from spade.protocol import Finish, Generate, Generated, Weights
from spade.tokens import end_ids


class Pace(NamedTuple):
    """prompt_tokens: of prompts in one forward, so that sequences in flight do not wait; spare: see `slots.arrange`."""

    prompt_tokens: int
    spare: int


_PACE = {"cpu": Pace(512, 8_192), "cuda": Pace(8_192, 1 << 20)}
_LAYERS = {"full_attention", "sliding_attention"}


class _Row:
    """A sequence in flight. `tokens` are the prompt and what was sampled; the keys of the first `filled` are stored."""

    def __init__(self, id: int, request: Generate) -> None:
        self.id = id
        self.tokens: list[int] = unpack_ids(request.prompt).tolist()
        self.prompt = len(self.tokens)
        self.max_tokens = request.max_tokens
        self.temperature = request.temperature
        self.seed = request.seed
        self.slot = -1
        self.filled = 0
        self.logprobs: list[float] = []
        self.versions: list[tuple[int, int]] = []

    def push(self, token: int, logprob: float, version: int) -> None:
        self.tokens.append(token)
        self.logprobs.append(logprob)
        if self.versions and self.versions[-1][0] == version:
            self.versions[-1] = (version, self.versions[-1][1] + 1)
        else:
            self.versions.append((version, 1))

    def result(self, finish: Finish) -> Generated:
        return Generated(pack_ids(self.tokens[self.prompt :]), pack_floats(self.logprobs), tuple(self.versions), finish)


class TorchEngine:
    """See `base.Engine`. `rows` sequences at once, each of at most `context_tokens`."""

    def __init__(self, weights: Weights, *, rows: int, context_tokens: int, dtype: str, device: str) -> None:
        """Load `weights` (an empty digest is not checked). Raises RunError; ConfigError if it cannot run here."""
        self.version = weights.version
        self.sampled = 0
        self._rows, self._context, self._dtype = rows, context_tokens, dtype
        self._device = policy.pick_device(device)
        self._pace = _PACE.get(self._device.type, _PACE["cuda"])
        self._waiting: deque[_Row] = deque()
        self._active: dict[int, _Row] = {}  # by slot
        self._cache = SlotCache(rows, context_tokens)
        self._prefixes = Prefixes(rows, context_tokens)
        self._steps = 0
        self._end_ids = end_ids(Path(weights.path))
        self._digest = weights.digest
        self._model = self._load(weights)
        _check(self._model)
        self._vocabulary: int = self._model.config.get_text_config().vocab_size

    @property
    def busy(self) -> bool:
        return bool(self._active or self._waiting)

    @property
    def active(self) -> int:
        return len(self._active)

    @property
    def queued(self) -> int:
        return len(self._waiting)

    def refusal(self, request: Generate) -> str | None:
        return unfit(request, self._context, self._vocabulary)

    def submit(self, id: int, request: Generate) -> None:
        self._waiting.append(_Row(id, request))

    def cancel(self, id: int) -> None:
        self._waiting = deque(row for row in self._waiting if row.id != id)
        for row in [row for row in self._active.values() if row.id == id]:
            self._release(row)

    def close(self) -> None:
        """It has neither."""

    def load_weights(self, weights: Weights) -> None:
        if weights.digest != self._digest:
            self._model = self._load(weights)
            self._model.set_attn_implementation(ATTENTION)
            self._digest = weights.digest
            self._prefixes.forget()
        self.version = weights.version

    def _load(self, weights: Weights) -> PreTrainedModel:
        digest = weights.digest or None
        return policy.load(Path(weights.path), dtype=self._dtype, device=self._device, digest=digest)

    @torch.inference_mode()
    def step(self) -> list[tuple[int, Generated]]:
        self._steps += 1
        while self._waiting and len(self._active) < self._rows:
            self._admit(self._waiting.popleft())
        chunks = self._next_chunks()
        if not chunks:
            return []
        longest = max(chunk.end for chunk in chunks)
        self._cache.reserve(longest)
        self._prefixes.reserve(longest)
        plan = Plan(chunks, self._pace.spare, self._device)
        return self._sample(*self._forward(plan))

    def _admit(self, row: _Row) -> None:
        prompt = np.array(row.tokens, dtype=np.int32)
        idle = [slot for slot in range(self._rows) if slot not in self._active]
        placement = self._prefixes.place(prompt, idle)
        if placement.source != placement.slot:
            self._cache.copy(placement.source, placement.slot, placement.tokens)
        self._prefixes.begin(placement, prompt)
        row.slot, row.filled = placement.slot, placement.tokens
        self._active[row.slot] = row

    def _next_chunks(self) -> list[Chunk]:
        """What this step computes: the newest token of every sequence, and of prompts what the pace allows."""
        left = self._pace.prompt_tokens
        chunks = []
        for row in self._active.values():
            count = len(row.tokens) - row.filled
            if count > 1:
                count = min(count, left)
                left -= count
            if count:
                chunks.append(Chunk(row.slot, row.filled, count))
        return chunks

    def _forward(self, plan: Plan) -> tuple[list[_Row], Tensor]:
        """Run the model; returns the rows whose next token is due and their logits (rows, vocabulary)."""
        ids: list[int] = []
        due: list[_Row] = []
        last: list[int] = []
        for slot, start, count in plan.chunks:
            row = self._active[slot]
            row.filled = start + count
            ids += row.tokens[start : row.filled]
            if row.filled == len(row.tokens):
                due.append(row)
                last.append(len(ids) - 1)
        packed = np.array(ids, dtype=np.int64)
        keep = torch.tensor(last, dtype=torch.int64, device=self._device)
        self._cache.plan = plan
        logits = _packed_logits(self._model, torch.from_numpy(packed)[None].to(self._device), self._cache, keep)[0]
        self._prefixes.write(plan.slot, plan.position, packed, self._steps)
        return due, logits

    def _sample(self, rows: list[_Row], logits: Tensor) -> list[tuple[int, Generated]]:
        if not rows:
            return []
        temperatures = torch.tensor([row.temperature for row in rows], device=self._device)
        counters = [len(row.logprobs) for row in rows]
        tokens, logprobs = sample(logits, temperatures, uniforms([row.seed for row in rows], counters))
        self.sampled += len(rows)
        ended = []
        for row, token, logprob in zip(rows, tokens, logprobs, strict=True):
            row.push(token, logprob, self.version)
            if token in self._end_ids:
                ended.append((row.id, row.result("stop")))
                self._release(row)
            elif len(row.logprobs) == row.max_tokens:
                ended.append((row.id, row.result("length")))
                self._release(row)
        return ended

    def _release(self, row: _Row) -> None:
        del self._active[row.slot]


def _check(model: PreTrainedModel) -> None:
    """Make sure that attention over slots is the model's own. Raises ConfigError where it is not."""
    kind = model.config.model_type
    text = model.config.get_text_config()
    if not model._supports_attention_backend or not _LAYERS.issuperset(getattr(text, "layer_types", None) or []):
        raise ConfigError(f"model.path: the torch engine cannot run {kind}: it has no plain key-value cache")
    ids = torch.arange(16, device=model.device)[None] % text.vocab_size
    own = model.config._attn_implementation
    with torch.inference_mode():
        expected = model(input_ids=ids, use_cache=False).logits
        model.set_attn_implementation(ATTENTION)
        cache = SlotCache(1, ids.shape[1])
        cache.plan = Plan([Chunk(0, 0, ids.shape[1])], 0, model.device)
        found = _packed_logits(model, ids, cache)
    tolerance = 1e-3 if expected.dtype == torch.float32 else 0.2
    if not torch.allclose(expected, found, rtol=tolerance, atol=tolerance):
        raise ConfigError(f"model.path: the torch engine cannot run {kind}: its attention is not {own} attention")


def _packed_logits(model: PreTrainedModel, ids: Tensor, cache: SlotCache, keep: Tensor | int = 0) -> Tensor:
    """Logits (1, kept, vocabulary) of the packed `ids` (1, tokens) under the cache's plan; 0 keeps all."""
    logits: Tensor = model(
        input_ids=ids,
        position_ids=cache.plan.positions[None],
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=keep,
        slot_cache=cache,
    ).logits
    return logits
