"""Agents and the replay service."""

from spade.protocol.base import Count, Form, Many, Name, Outcome, Request, Wire
from spade.protocol.session import Done
from spade.protocol.trajectories import Recording, Trajectory


class PlayLease(Wire, frozen=True):
    """One episode to play, and what its agent needs of the environment.

    program   names the program (`codec.program_digest`), which the agent never sees
    hint      what the hinted arm is told; None in the unhinted one
    seed      the instance, the same in both arms; `sampler` seeds the sampling
    reads     as in Verdict; so is `single_turn`
    """

    id: str
    lease: int
    environment: str
    program: Name
    hint: str | None
    seed: int
    sampler: int
    reads: Form = "inside"
    single_turn: bool = False

    @property
    def hinted(self) -> bool:
        """True in the hinted arm."""
        return self.hint is not None


class Plays(Wire, frozen=True):
    """Plays, leased; empty: none now."""

    plays: tuple[PlayLease, ...] = ()


class LeasePlays(Request[Plays], frozen=True):
    """Ask for up to `count` plays, waiting up to `wait_s` for one."""

    count: int
    wait_s: float


class ToolUse(Wire, frozen=True):
    """The use of tools in one play; fields as in `EndedPlay`."""

    calls: int
    refused: int
    malformed: int
    instructions: int
    done: int
    free: int


class EndedPlay(Wire, frozen=True):
    """The end of an episode.

    `rewards` are those of every step; `episode_return` is the last one clipped to [-1, 1] if the episode terminated,
    else 0; `trajectory` is None if a fault of the environment voids the play, and `fault` says which.

    Where tools were used: `calls` were sent, of which the program's schemas `refused` some; `malformed` were not sent,
    since they cannot be read or were too many; `done` of the `instructions` are done, `free` of them were met when they
    were given.
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
    calls: Count = 0
    refused: Count = 0
    malformed: Count = 0
    done: Count = 0
    instructions: Count = 0
    free: Count = 0

    @property
    def tools(self) -> ToolUse | None:
        """The use of tools; None where the program has none, since each that has tools has instructions."""
        if not self.instructions:
            return None
        return ToolUse(self.calls, self.refused, self.malformed, self.instructions, self.done, self.free)


class SubmitPlays(Request[Done], frozen=True):
    """Episodes that ended. Each is idempotent by its play id.

    Refused names the plays that make no sense; the others are committed.
    """

    plays: Many[EndedPlay]


class ReleasePlay(Request[Done], frozen=True):
    """Give a play back: a fault of the infrastructure, it is leased again on the same seed.

    `suspect`: a service ended, or met an unforeseen error, while it served this play; the second time it is void.
    """

    id: str
    lease: int
    suspect: bool = False
