"""Feeds a replay service what designers, agents and a learner would bring, through `everyone`."""

from collections.abc import Callable

from msgspec.structs import replace

from spade.protocol import Batch, PlayLease, StepMetrics, Trajectory, Weights
from tests.replay.everyone import Everyone
from tests.replay.replay_world import ended, environment, trajectory

Said = Callable[[], Trajectory]


def of_version_1() -> Trajectory:
    return trajectory(1)


async def publish(replay: Everyone, step: int = 0) -> Weights:
    return await replay.publish(step, f"digest-{step}", f"/weights/{step}", StepMetrics(loss=0.5, step_s=2.0))


async def design(replay: Everyone, count: int = 1, said: Said = of_version_1) -> None:
    """Hand in so many environments, each with the next trajectory of `said`."""
    while count:
        for job in await replay.lease_designs(min(count, 64), 5.0):
            await replay.submit_environment(replace(environment(job, 1), trajectory=said()))
            count -= 1


async def leased(replay: Everyone, count: int) -> list[PlayLease]:
    """So many plays; waits until there are."""
    plays: list[PlayLease] = []
    while len(plays) < count:
        plays += await replay.lease_plays(min(count - len(plays), 256), 5.0)
    return plays


async def play(replay: Everyone, count: float, said: Said = of_version_1) -> list[str]:
    """Play so many plays, or for ever (`math.inf`), every other instance won; their ids."""
    ids: list[str] = []
    while len(ids) < count:
        for lease in await replay.lease_plays(min(8, count - len(ids)), 5.0):
            whole = ended(lease, float(int(lease.id[-3:]) % 2), 1)
            await replay.submit_plays((replace(whole, trajectory=said()),))
            ids.append(lease.id)
    return ids


async def train(replay: Everyone, step: int, plays: int = 8) -> None:
    """Design an environment, play so many plays, take the batch of `step` and publish its weights."""
    await design(replay)
    await play(replay, plays)
    assert isinstance(await replay.take_batch(step, 5.0), Batch)
    await publish(replay, step)
