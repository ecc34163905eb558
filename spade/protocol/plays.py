"""Agents and the replay service."""

from spade.protocol.base import Form, Many, Outcome, Wire
from spade.protocol.trajectories import Recording, Trajectory


class PlayLease(Wire, frozen=True):
    """One episode to play. `seed` is the instance (the same in both arms), `sampler` seeds the sampling."""

    id: str
    lease: int
    environment: str
    hinted: bool
    seed: int
    sampler: int


class LeasePlays(Wire, frozen=True):
    """Ask for up to `count` plays, waiting up to `wait_s` for one. Reply: Plays (empty: none now)."""

    count: int
    wait_s: float


class Plays(Wire, frozen=True):
    """Plays, leased."""

    plays: tuple[PlayLease, ...] = ()


class GetProgram(Wire, frozen=True):
    """Reply: Program, or Refused (no such environment)."""

    environment: str


class Program(Wire, frozen=True):
    """What an agent actor needs of an environment; `reads` as in Verdict."""

    environment: str
    source: str
    hint: str
    reads: Form = "inside"


class EndedPlay(Wire, frozen=True):
    """How an episode ended.

    `rewards` are those of every step; `episode_return` is the last one clipped to [-1, 1] if the episode terminated,
    else 0; `trajectory` is None where a fault of the environment voids the play, and `fault` says which.
    """

    id: str
    lease: int
    outcome: Outcome
    episode_return: float
    rewards: Many[float]
    seconds: float
    trajectory: Trajectory | None = None
    fault: str = ""
    recording: Recording | None = None


class SubmitPlays(Wire, frozen=True):
    """Episodes that ended, together. Idempotent by play id, each for itself. Reply: Done, or Refused.

    A play that makes no sense keeps no other from being taken: Refused names it, and the others are committed.
    """

    plays: Many[EndedPlay]


class ReleasePlay(Wire, frozen=True):
    """Give a play back: a fault of the infrastructure, it is leased again on the same seed. Reply: Done.

    `suspect`: a service ended, or met an error nobody foresaw, while it served this play; the second time it is void.
    """

    id: str
    lease: int
    suspect: bool = False
