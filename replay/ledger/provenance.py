"""Provenance: every sampled token names the weights that sampled it, by version and digest. Pure.

If a trajectory was sampled by weights that were never published, it is quarantined: kept separately, counted, never
trained, and left out of all statistics. Its work is leased again.
"""

from replay.ledger.records import QuarantineRecord
from replay.ledger.state import RunState
from spade.protocol import DIGEST_BYTES, Trajectory, Weights


def note(state: RunState, weights: Weights) -> None:
    """Record that weights were published."""
    state.published[weights.version] = weights.digest
    state.steps[weights.version] = weights.step


def find_oldest(steps: dict[int, int], trajectory: Trajectory) -> int:
    """Return the version with the earliest learner step among those that sampled a token; 0 without a token.

    `steps`: learner step by version. A resumed learner may repeat steps with other results, which get new versions. So
    the highest version need not have the latest step.
    """
    if len(trajectory.versions) == 1:
        return trajectory.versions[0][0]
    return min(
        (version for version, _ in trajectory.versions), key=lambda version: (steps[version], version), default=0
    )


def describe_flaw(published: dict[int, str], trajectory: Trajectory) -> str:
    """Describe the fault of a trajectory's provenance. Returns "" without a fault. `published`: digest by version.

    A trajectory without digests is judged by its versions alone.
    """
    for index, (version, _) in enumerate(trajectory.versions):
        if version not in published:
            return f"version {version} was never published"
        if not trajectory.digests:
            continue
        digest = trajectory.digests[DIGEST_BYTES * index : DIGEST_BYTES * (index + 1)].hex()
        if digest != published[version]:
            return f"weights {digest} were never published as version {version}"
    return ""


def quarantine(state: RunState, key: str, trajectory: Trajectory, why: str, holder: str, now: float) -> None:
    """Quarantine a trajectory of faulty provenance.

    `key` identifies the submission. A resent message has the same key.
    """
    if key not in state.quarantine:
        state.quarantine.add(key)
        state.counters.quarantined += 1
        state.counters.newest_quarantined = f"{key} of {holder}: {why}"
        state.touch("quarantine", key, QuarantineRecord(holder, why, now, trajectory))
