"""Read finished plays of a run with all that is needed to play them again, and count trained trajectories."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from replay.ledger.keys import compute_instance_number, make_environment_prefix
from replay.ledger.records import BatchRecord, Environment, PlayRecord, Source
from replay.store import open_reader
from replay.store.load import Header
from spade.errors import RunError
from spade.protocol import Trajectory
from spade.seeds import INSTANCE_MASK, derive


class KeptPlay(msgspec.Struct, frozen=True):
    """A finished play with all that is needed to play it again."""

    record: PlayRecord
    environment: Environment
    source: Source
    seed: int
    """The seed of the play's instance."""
    trajectory: Trajectory
    """The tokens of the play."""


def read_play(path: Path, id: str) -> KeptPlay:
    """Read one finished play. Raises RunError if it does not exist, or if its tokens were deleted."""
    with open_reader(path) as store, store.pinned():
        record = store.get("plays", id, PlayRecord)
        if record is None:
            raise RunError(
                f"{path}: no play {id!r}; `spade replay lineage RUN ENVIRONMENT` lists the plays of an environment"
            )
        if record.state != "finished":
            why = f": {record.fault}" if record.fault else ""
            raise RunError(f"the play {id} is {record.state}{why}; only a finished play can be shown")
        (header,) = store.get_many("meta", ["run"], Header)
        (environment,) = store.get_many("environments", [record.environment], Environment)
        (source,) = store.get_many("sources", [record.environment], Source)
        trajectory = store.get("trajectories", id, Trajectory)
    if trajectory is None:
        raise RunError(f"the tokens of the play {id} were deleted (replay.retain_s, replay.retain_bytes)")
    seed = (
        derive(header.secret, "instance", record.environment, compute_instance_number(environment, record))
        & INSTANCE_MASK
    )
    return KeptPlay(record, environment, source, seed, trajectory)


def read_newest_play(path: Path) -> KeptPlay:
    """Read the last finished play of the newest environment that has one. Raises RunError without such a play."""
    with open_reader(path) as store:
        for environment in reversed(store.scan("environments", Environment)):
            plays = store.scan("plays", PlayRecord, prefix=make_environment_prefix(environment.id))
            if finished := [play for play in plays if play.state == "finished"]:
                break
        else:
            raise RunError(f"{path}: no play is finished yet")
    # Ids do not sort by age, because chunk 10 comes before chunk 2.
    return read_play(path, max(finished, key=lambda play: (play.chunk, not play.hinted, play.index)).id)


def read_finished(
    path: Path, is_chosen: Callable[[PlayRecord, str], bool]
) -> list[tuple[PlayRecord, str, Trajectory | None]]:
    """Return (play, skill, tokens) of each finished play that `is_chosen` accepts, given the play and its skill.

    The tokens are None if they were deleted. Raises RunError if the store does not exist.
    """
    with open_reader(path) as store, store.pinned():
        skills = {each.id: each.skill for each in store.scan("environments", Environment)}
        plays = [play for _, play in store.decoded("plays", PlayRecord) if play.state == "finished"]
        return [
            (play, skill, store.get("trajectories", play.id, Trajectory))
            for play in plays
            if is_chosen(play, skill := skills[play.environment])
        ]


def read_examples(path: Path, environment: str) -> list[PlayRecord]:
    """Return one finished play of an environment for each return that occurred, the highest return first.

    Of the plays with the same return, prefers an unhinted play, and then the smallest id.
    """
    with open_reader(path) as store:
        plays = store.scan("plays", PlayRecord, prefix=make_environment_prefix(environment))
    first: dict[float, PlayRecord] = {}
    for play in sorted(plays, key=lambda play: (play.hinted, play.id)):
        if play.state == "finished":
            first.setdefault(play.episode_return, play)
    return [first[key] for key in sorted(first, reverse=True)]


def count_trained(path: Path, steps: int) -> tuple[int, int]:
    """Count the trajectories in the batches of the first `steps` learner steps. Returns (agents', designers').

    Raises RunError if the store does not exist.
    """
    with open_reader(path) as store:
        batches = [batch for batch in store.scan("batches", BatchRecord) if batch.step <= steps]
    groups = [group for batch in batches for group in batch.groups]
    agent, designer = (
        sum(len(group.members) for group in groups if group.role == role) for role in ("agent", "designer")
    )
    return agent, designer
