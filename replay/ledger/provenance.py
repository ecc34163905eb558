"""Provenance: every sampled token names the weights that sampled it, by version and digest. Pure.

A trajectory sampled by weights that were never published is quarantined: kept apart, counted, never trained, and in no
statistic. Its work is leased again.
"""

from replay.ledger.records import Quarantined
from replay.ledger.state import State
from spade.protocol import DIGEST_BYTES, Trajectory, Weights


def note(state: State, weights: Weights) -> None:
    """Note that weights were published."""
    state.published[weights.version] = weights.digest
    state.steps[weights.version] = weights.step


def oldest(steps: dict[int, int], trajectory: Trajectory) -> int:
    """The version of the earliest learner step among those that sampled one of its tokens; 0 for none.

    `steps`: learner step by version. After a resume with other results the highest version need not be the newest.
    """
    return min(
        (version for version, _ in trajectory.versions), key=lambda version: (steps[version], version), default=0
    )


def flaw(published: dict[int, str], trajectory: Trajectory) -> str:
    """The fault of a trajectory's provenance, "" if there is none. `published`: digest by version.

    A trajectory without digests is judged by its versions alone.
    """
    for index, (version, _) in enumerate(trajectory.versions):
        if version not in published:
            return f"version {version} was never published"
        digest = trajectory.digests[DIGEST_BYTES * index : DIGEST_BYTES * (index + 1)].hex()
        if digest and digest != published[version]:
            return f"weights {digest} were never published as version {version}"
    return ""


def quarantine(state: State, key: str | None, trajectory: Trajectory, holder: str, now: float) -> bool:
    """Quarantine a trajectory of faulty provenance; False if it is sound.

    `key` is that of one submission: a message that is sent again has the same. None: it is judged, and not kept.
    """
    why = flaw(state.published, trajectory)
    if why and key is not None and key not in state.quarantine:
        state.quarantine.add(key)
        state.counters.quarantined += 1
        state.counters.newest_quarantined = f"{key} of {holder}: {why}"
        state.touch("quarantine", key, Quarantined(holder, why, now, trajectory))
    return bool(why)
