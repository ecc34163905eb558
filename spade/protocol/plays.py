"""Agents and the replay service."""

from spade.protocol.base import Form, Many, Outcome, Request, Wire
from spade.protocol.session import Done
from spade.protocol.trajectories import Recording, Trajectory


class PlayLease(Wire, frozen=True):
    """One episode to play. `seed` is the instance (the same in both arms), `sampler` seeds the sampling."""

    id: str
    lease: int
    environment: str
    hinted: bool
    seed: int
    sampler: int


class Plays(Wire, frozen=True):
    """Plays, leased; empty: none now."""

    plays: tuple[PlayLease, ...] = ()


class LeasePlays(Request[Plays], frozen=True):
    """Ask for up to `count` plays, waiting up to `wait_s` for one."""

    count: int
    wait_s: float


class Program(Wire, frozen=True):
    """What an agent actor needs of an environment; `reads` as in Verdict."""

    environment: str
    source: str
    hint: str
    reads: Form = "inside"


class GetProgram(Request[Program], frozen=True):
    """Ask for an environment's program. Refused: there is no such environment."""

    environment: str


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


class SubmitPlays(Request[Done], frozen=True):
    """Episodes that ended, together. Idempotent by play id, each for itself.

    A play that makes no sense keeps no other from being taken: Refused names it, and the others are committed.
    """

    plays: Many[EndedPlay]


class ReleasePlay(Request[Done], frozen=True):
    """Give a play back: a fault of the infrastructure, it is leased again on the same seed.

    `suspect`: a service ended, or met an error nobody foresaw, while it served this play; the second time it is void.
    """

    id: str
    lease: int
    suspect: bool = False
