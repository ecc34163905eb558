"""Read all designs of a run, and a few of their environments with programs, plays and tokens."""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from replay.ledger.keys import make_environment_prefix
from replay.ledger.records import Environment, PlayRecord, Publication, Reject, Source
from replay.store import Store, open_reader
from spade.protocol import Trajectory

Choose = Callable[[Sequence[Environment]], Sequence[str]]
"""A function that gets all environments and returns the ids of those to show."""
Pick = Callable[[Sequence[PlayRecord]], Sequence[str]]
"""A function that gets the finished plays of an environment and returns the ids of those to show with tokens."""


class ShownEnvironment(msgspec.Struct, frozen=True):
    """An environment with its program and finished plays."""

    environment: Environment
    source: Source
    plays: tuple[PlayRecord, ...]
    tokens: dict[str, Trajectory]
    """The tokens of the picked plays, if they are still stored."""


class DesignRecords(msgspec.Struct, frozen=True):
    """The designs of a run."""

    environments: tuple[Environment, ...] = ()
    """All environments, the oldest first."""
    reasons: dict[tuple[str, str], int] = {}
    """Number of rejected candidates by stage and reason."""
    examples: dict[str, Reject] = {}
    """The newest rejected candidate of each stage."""
    steps: dict[int, int] = {}
    """The learner step of each policy version."""
    digest: str = ""
    """Digest of the newest weights, "" before the first."""
    shown: tuple[ShownEnvironment, ...] = ()
    """The chosen environments."""


def read_designs(path: Path, choose: Choose, pick: Pick, kind_of: Callable[[str], str]) -> DesignRecords:
    """Read the designs of one commit. `kind_of` removes the details of a reason, so that equal reasons count together.

    Raises RunError if the store does not exist, DamagedError if a record cannot be read.
    """
    with open_reader(path) as store, store.pinned():
        environments = tuple(store.scan("environments", Environment))
        reasons: dict[tuple[str, str], int] = {}
        examples: dict[str, Reject] = {}
        for _, reject in store.decoded("rejects", Reject):
            reason = reject.stage, kind_of(reject.reason)
            reasons[reason] = reasons.get(reason, 0) + 1
            examples[reject.stage] = reject
        published = [one.weights for one in store.scan("publications", Publication)]
        steps = {weights.version: weights.step for weights in published}
        by_id = {environment.id: environment for environment in environments}
        shown = tuple(collect_shown(store, by_id[id], pick) for id in choose(environments))
    digest = published[-1].digest if published else ""
    return DesignRecords(environments, reasons, examples, steps, digest, shown)


def collect_shown(store: Store, environment: Environment, pick: Pick) -> ShownEnvironment:
    """Read the program and the finished plays of an environment, with the tokens of the picked plays."""
    plays = store.scan("plays", PlayRecord, prefix=make_environment_prefix(environment.id))
    finished = tuple(play for play in plays if play.state == "finished")
    (source,) = store.get_many("sources", [environment.id], Source)
    found = {id: store.get("trajectories", id, Trajectory) for id in pick(finished)}
    return ShownEnvironment(
        environment, source, finished, {id: tokens for id, tokens in found.items() if tokens is not None}
    )
