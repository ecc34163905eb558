"""The memory for keys and values of sequences in flight and of ended sequences, within one bound."""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from actors.engines.torch.buddy import Extents, TokenExtent, compute_size
from actors.engines.torch.kv_store import KvStore
from actors.engines.torch.plan import TokenChunk
from actors.engines.torch.prefixes import Placement, Prefixes
from spade.errors import ConfigError
from spade.processes.memory import count_machine_bytes


class KvMemory:
    """Memory for the keys and values of `entries` sequences of at most `context_tokens` each.

    Callers pass the entries of sequences in flight as `busy`. The other entries are idle. A later request may
    continue their sequences.
    """

    def __init__(self, entries: int, context_tokens: int, kv_bytes: int, like: KvStore) -> None:
        """Allocate stores with the shapes of `like` in `kv_bytes`. Raises ConfigError if one sequence does not fit."""
        self.prefixes = Prefixes(entries, context_tokens)
        tokens = _count_room(kv_bytes, like.token_bytes, context_tokens, entries)
        self.cache = KvStore(tokens, like)
        self._extents = Extents(tokens, compute_size(context_tokens))
        self._of: list[TokenExtent | None] = [None] * entries
        self._held = np.zeros(entries, dtype=np.bool_)  # the entries with an extent

    def chunk(self, entry: int, start: int, size: int) -> TokenChunk:
        """Return a chunk of `size` tokens from `start` of the sequence in an entry.

        The entry must have room for them.
        """
        return TokenChunk(entry, self._get_extent(entry), start, size)

    def place(self, prompt: NDArray[np.int32], busy: Collection[int]) -> Placement | None:
        """Choose an entry for a prompt; see `Prefixes.place`."""
        return self.prefixes.place(prompt, self._find_idle(busy))

    def admit(self, placement: Placement, prompt: NDArray[np.int32], busy: Collection[int]) -> Placement | None:
        """Give a prompt an entry, with the keys that it shares with earlier sequences, as `placement` proposes.

        Returns the placement that was made: without shared keys if they needed too much room. Returns None if no room
        can be made.
        """
        entry, source, tokens, outdated = placement
        extent, size = self._of[entry], compute_size(len(prompt))
        if extent is not None and not (source == entry and tokens) and extent.size != size:
            self._evict(entry)
        if not self.fit(entry, len(prompt), busy, spared=[source]):
            # Sharing keys may need too much room. Try again without sharing.
            placement = Placement(entry, entry, 0, outdated)
            if self._of[entry] is not None:
                self._evict(entry)
            if not self.fit(entry, len(prompt), busy):
                return None
        elif source != entry:
            self.cache.copy(self._get_extent(source), self._get_extent(entry), tokens)
        self.prefixes.begin(placement, prompt)
        return placement

    def fit(self, entry: int, tokens: int, busy: Collection[int], spared: Sequence[int] = ()) -> bool:
        """Make room for `tokens` in an entry and keep its keys. May evict the longest idle entries except `spared`.

        Returns False if no room can be made.
        """
        size, old = compute_size(tokens), self._of[entry]
        if old is not None and old.size >= size:
            return True
        while (new := self._extents.take(size)) is None:
            droppable = self._find_idle(busy) & self._held
            droppable[[entry, *spared]] = False
            if not droppable.any():
                return False
            self._evict(self.prefixes.find_oldest(droppable))
        if old is not None:
            self.cache.copy(old, new, int(self.prefixes.filled[entry]))
            self._extents.give(old)
        self._of[entry] = new
        self._held[entry] = True
        return True

    def _find_idle(self, busy: Collection[int]) -> NDArray[np.bool_]:
        """Return a mask (entries,), True for each idle entry."""
        idle = np.ones(len(self._of), dtype=np.bool_)
        idle[list(busy)] = False
        return idle

    def _get_extent(self, entry: int) -> TokenExtent:
        extent = self._of[entry]
        assert extent is not None
        return extent

    def _evict(self, entry: int) -> None:
        self._extents.give(self._get_extent(entry))
        self._of[entry] = None
        self._held[entry] = False
        self.prefixes.evict(entry)


def limit_kv_bytes(kv_bytes: int, device: str) -> int:
    """Return `kv_bytes`, on a CPU at most half of the machine's memory. The other half is for everything else."""
    return min(kv_bytes, count_machine_bytes() // 2) if device == "cpu" else kv_bytes


def _count_room(kv_bytes: int, token_bytes: int, context_tokens: int, entries: int) -> int:
    """Return how many tokens fit into `kv_bytes`: a whole number of contexts, at most one for each entry."""
    context = compute_size(context_tokens)
    contexts = min(kv_bytes // (token_bytes * context), entries)
    if not contexts:
        raise ConfigError(
            f"engine.kv_bytes: {kv_bytes} do not hold one sequence of engine.context_tokens = {context_tokens}, "
            f"whose {context} tokens take {token_bytes} bytes each; give {token_bytes * context} or more"
        )
    return contexts * context
