"""Receipts: every sampled token names the weights that sampled it, by version and digest. Pure.

What was sampled by weights that were never published is quarantined: kept apart, counted, never trained, and in no
statistic. Its work is given back, to be done again.
"""

from replay.ledger.records import Quarantined
from replay.ledger.state import State
from spade.protocol import DIGEST_BYTES, Trajectory, Weights


def note(state: State, weights: Weights) -> None:
    """Weights were published."""
    state.published[weights.version] = weights.digest
    state.steps[weights.version] = weights.step


def oldest(steps: dict[int, int], trajectory: Trajectory) -> int:
    """Of the versions that sampled one of its tokens the one of the earliest learner step; 0 for none.

    `steps`: learner step by version. After a resume that came out otherwise the highest need not be the newest.
    """
    return min(
        (version for version, _ in trajectory.versions), key=lambda version: (steps[version], version), default=0
    )


def flaw(published: dict[int, str], trajectory: Trajectory) -> str:
    """What is wrong with the receipts of a trajectory, "" where nothing is. `published`: digest by version.

    One without digests is judged by its versions alone.
    """
    for index, (version, _) in enumerate(trajectory.versions):
        if version not in published:
            return f"version {version} was never published"
        digest = trajectory.digests[DIGEST_BYTES * index : DIGEST_BYTES * (index + 1)].hex()
        if digest and digest != published[version]:
            return f"weights {digest} were never published as version {version}"
    return ""


def quarantine(state: State, key: str | None, trajectory: Trajectory, holder: str, now: float) -> bool:
    """Keep a trajectory apart where its receipts are flawed; False where they are sound.

    `key` is that of one handing in: a message that is sent again is the same. None: it is judged, and not kept.
    """
    why = flaw(state.published, trajectory)
    if why and key is not None and key not in state.quarantine:
        state.quarantine.add(key)
        state.counters.quarantined += 1
        state.counters.newest_quarantined = f"{key} of {holder}: {why}"
        state.touch("quarantine", key, Quarantined(holder, why, now, trajectory))
    return bool(why)
