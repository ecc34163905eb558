"""Admission: how much work may start now. One pure function; there is no other throttle.

Why the lag bound holds. Let B be a batch, V the version the next batch is trained at, and v the oldest version that
sampled a token of some chunk in flight. The chunk is within the bound L if it is in one of the next n = v + L - V + 1
batches. A batch takes at least B sequences in the order they became trainable; so even if all else outstanding goes
before it, the chunk is in one of those as long as all else is under n * B. Chunks are started only while everything
outstanding is under n * B for the oldest chunk in flight: work waits instead of being wasted, and however slow a chunk
is, it is not left behind. (Not foreseen are the designer groups that become trainable meanwhile, at most one round's;
what they push over the bound is counted as wasted.)

Under that bound, no more is started than fills all slots once while one batch waits: more would only wait, and age.

It cannot lock: a chunk once begun counts whole and its plays may always be leased; and with nothing in flight and the
learner idle, n is at least 1 and less than a batch waits, so a chunk may start.
"""

import msgspec

from spade.config import Config


class Load(msgspec.Struct, frozen=True):
    """What the ledger holds when it asks.

    version      newest published policy version; 0: none yet
    next_version version the next batch will be trained at, at least `version`
    outstanding  sequences that batches may still take: trainable groups, and chunks in flight at full size
    oldest       oldest version among the chunks in flight that are still within the bound; None: none in flight
    active       environments with an open window
    designing    design jobs open or leased
    """

    version: int
    next_version: int
    outstanding: int
    oldest: int | None
    active: int
    designing: int

    def __post_init__(self) -> None:
        if self.next_version < self.version or min(self.version, self.outstanding, self.active, self.designing) < 0:
            raise ValueError(f"admission was asked about an impossible load: {self}")


class Admitted(msgspec.Struct, frozen=True):
    """How many chunks of plays (hinted twins with them) and how many design jobs may start now."""

    chunks: int
    designs: int


def admit(load: Load, config: Config) -> Admitted:
    """The one admission rule."""
    if load.version == 0:
        return Admitted(0, 0)
    group, batch, slots = config.play.group_size, config.learner.batch_sequences, config.design.active_environments
    oldest = load.version if load.oldest is None else min(load.oldest, load.version)
    batches = max(oldest + config.learner.agent_lag - load.next_version + 1, 0)
    room = min(batches * batch, batch + slots * group) - load.outstanding
    return Admitted(chunks=max(-(-room // group), 0), designs=max(slots - load.active - load.designing, 0))
