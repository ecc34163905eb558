"""A run in simulated time that rests in a real store, as a service would have left it."""

from pathlib import Path

from replay.store import open_store
from replay.store.load import Header
from spade.config import Config, compute_digest, dump
from tests.replay.replay_world import SECRET, Pace, World, config

ACCIDENTS = Pace(lost=0.05, faults=0.05, released=0.05, failed_designs=0.2, findings=0.1, step_s=2.0, play_s=2.0)
SETTINGS = config(
    "learner.batch_sequences=24", "play.lease_s=10", "design.lease_s=20", "design.memory_records=5", "audit.replays=1"
)


def keep_world(
    folder: Path, seed: int = 1, until: float = 60.0, settings: Config = SETTINGS, pace: Pace = ACCIDENTS
) -> World:
    """Live through `until` seconds; every change is committed to the store in `folder`."""
    world = World(settings, seed, pace)
    with open_store(folder, "nosync") as store:
        header = Header(SECRET, compute_digest(settings), dump(settings), 0.0)
        store.commit(store.encode([("meta", "run", header)]))

        def commit(world: World) -> None:
            if changes := world.ledger.state.changes():
                store.commit(store.encode(changes))

        world.run(until, commit)
    return world
