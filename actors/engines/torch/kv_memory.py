"""Where the keys and values of sequences lie: in flight and at rest, within one bound."""

from collections.abc import Container

import numpy as np
from numpy.typing import NDArray

from actors.engines.torch.buddy import Extents, TokenExtent, size_for
from actors.engines.torch.kv_store import SlotCache
from actors.engines.torch.plan import TokenChunk
from actors.engines.torch.prefixes import Placement, Prefixes
from spade.errors import ConfigError


class KvMemory:
    """`slots` sequences of at most `context_tokens`, those `busy` in flight, the others kept to be continued."""

    def __init__(self, slots: int, context_tokens: int, kv_bytes: int, token_bytes: int) -> None:
        """Raises ConfigError where `kv_bytes` do not hold one sequence of `token_bytes` a token."""
        self.prefixes = Prefixes(slots, context_tokens)
        tokens = _room(kv_bytes, token_bytes, context_tokens, slots)
        self.cache = SlotCache(tokens)
        self._extents = Extents(tokens, size_for(context_tokens))
        self._of: list[TokenExtent | None] = [None] * slots

    def chunk(self, slot: int, start: int, size: int) -> TokenChunk:
        """Tokens of the sequence in a slot that has room for them."""
        return TokenChunk(slot, self._extent(slot), start, size)

    def place(self, prompt: NDArray[np.int32], busy: Container[int]) -> Placement | None:
        """Where a prompt would go; see `Prefixes.place`."""
        return self.prefixes.place(prompt, self._idle(busy))

    def admit(self, placement: Placement, prompt: NDArray[np.int32], busy: Container[int]) -> Placement | None:
        """Give a prompt its slot, with those of its keys that are known; None where there is no room for it."""
        slot, source, tokens = placement
        extent, size = self._of[slot], size_for(len(prompt))
        if extent is not None and not (source == slot and tokens) and extent.size != size:
            self._evict(slot)
        if not self.fit(slot, len(prompt), busy, spared=source):
            # What it would share is in the way, or else nothing helps.
            placement = Placement(slot, slot, 0)
            if self._of[slot] is not None:
                self._evict(slot)
            if not self.fit(slot, len(prompt), busy):
                return None
        elif source != slot:
            self.cache.copy(self._extent(source), self._extent(slot), tokens)
        self.prefixes.begin(placement, prompt)
        return placement

    def fit(self, slot: int, tokens: int, busy: Container[int], spared: int = -1) -> bool:
        """Make room for `tokens` in a slot, keeping its keys; the coldest idle slots but `spared` may go for it."""
        size, old = size_for(tokens), self._of[slot]
        if old is not None and old.size >= size:
            return True
        while (new := self._extents.take(size)) is None:
            droppable = [each for each in self._idle(busy) if self._of[each] and each not in (slot, spared)]
            if not droppable:
                return False
            self._evict(min(droppable, key=lambda each: int(self.prefixes.used[each])))
        if old is not None:
            self.cache.copy(old, new, int(self.prefixes.filled[slot]))
            self._extents.give(old)
        self._of[slot] = new
        return True

    def _idle(self, busy: Container[int]) -> list[int]:
        return [slot for slot in range(len(self._of)) if slot not in busy]

    def _extent(self, slot: int) -> TokenExtent:
        extent = self._of[slot]
        assert extent is not None
        return extent

    def _evict(self, slot: int) -> None:
        self._extents.give(self._extent(slot))
        self._of[slot] = None
        self.prefixes.evict(slot)


def _room(kv_bytes: int, token_bytes: int, context_tokens: int, slots: int) -> int:
    """Number of tokens that `kv_bytes` hold, in whole contexts, of which there are as many as slots at most."""
    context = size_for(context_tokens)
    contexts = min(kv_bytes // (token_bytes * context), slots)
    if not contexts:
        raise ConfigError(
            f"engine.kv_bytes: {kv_bytes} do not hold one sequence of engine.context_tokens = {context_tokens}, "
            f"whose {context} tokens take {token_bytes} bytes each; give {token_bytes * context} or more"
        )
    return contexts * context
