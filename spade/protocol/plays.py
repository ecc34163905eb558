"""Messages between agents and the replay service."""

from spade.protocol.base import Count, Form, Many, Name, Outcome, Request, Wire
from spade.protocol.session import Done
from spade.protocol.trajectories import Recording, Trajectory


class PlayLease(Wire, frozen=True):
    """One episode to play, with everything that the agent needs to know about the environment."""

    id: str
    """Id of the play."""

    lease: int
    """Number of the lease. The agent's answer repeats it."""

    environment: str
    """Id of the environment."""

    program: Name
    """Digest that names the program (`codec.compute_program_digest`). The agent never sees the source."""

    hint: str | None
    """Hint to show to the model, or None if the play is in the unhinted arm."""

    seed: int
    """Seed of the instance. The hinted and the unhinted play of a pair have the same seed."""

    sampler: int
    """Seed for sampling the model's tokens."""

    reads: Form = "inside"
    """Form in which actions are sent to the program."""

    single_turn: bool = False
    """True if every play of admission was over after its first action."""

    @property
    def hinted(self) -> bool:
        """Return True if the play is in the hinted arm."""
        return self.hint is not None


class Plays(Wire, frozen=True):
    """The reply to `LeasePlays`: leased plays, or nothing if no play is due now."""

    plays: tuple[PlayLease, ...] = ()
    """Plays to play."""


class LeasePlays(Request[Plays], frozen=True):
    """Ask for plays."""

    count: int
    """Greatest number of plays to lease."""

    wait_s: float
    """Seconds to wait for the first play."""


class ToolUse(Wire, frozen=True):
    """The use of tools in one play."""

    calls: int
    """Tool calls that were sent to the program."""

    refused: int
    """Sent calls that the schemas of the program's tools refused."""

    malformed: int
    """Calls that were not sent, because they were unreadable or too many."""

    instructions: int
    """Number of all instructions."""

    done: int
    """Number of instructions that the player fulfilled."""

    free: int
    """Number of instructions that were already fulfilled when they were given. `done` includes them."""


class EndedPlay(Wire, frozen=True):
    """The result of one episode. The last six fields count the use of tools and stay 0 without tools."""

    id: str
    """Id of the play."""

    lease: int
    """Number of the play's lease."""

    outcome: Outcome
    """Kind of the episode's end. With "fault", a fault of the environment voids the play."""

    episode_return: float
    """Last reward clipped to [-1, 1] if the episode terminated, else 0."""

    rewards: Many[float]
    """Reward of every step."""

    seconds: float
    """Duration of the play."""

    trajectory: Trajectory | None = None
    """Tokens of the play, or None if a fault of the environment voids it."""

    fault: str = ""
    """Text of the fault that voids the play, or ""."""

    recording: Recording | None = None
    """Actions and answers of the play, from which an audit can run the play again."""

    calls: Count = 0
    """`ToolUse.calls`."""

    refused: Count = 0
    """`ToolUse.refused`."""

    malformed: Count = 0
    """`ToolUse.malformed`."""

    done: Count = 0
    """`ToolUse.done`."""

    instructions: Count = 0
    """`ToolUse.instructions`."""

    free: Count = 0
    """`ToolUse.free`."""

    @property
    def tools(self) -> ToolUse | None:
        """Return the use of tools. Returns None if the play has no instructions, because it then has no tools."""
        if not self.instructions:
            return None
        return ToolUse(self.calls, self.refused, self.malformed, self.instructions, self.done, self.free)


class SubmitPlays(Request[Done], frozen=True):
    """Hand in ended episodes. Idempotent by play id.

    If the replay service rejects some plays, the reply is `Refused` and names the first one and the reasons. The other
    plays are committed.
    """

    plays: Many[EndedPlay]
    """The results of the episodes."""


class ReleasePlay(Request[Done], frozen=True):
    """Give a play back after a fault of the infrastructure. It is leased again on the same seed."""

    id: str
    """Id of the play."""

    lease: int
    """Number of the play's lease."""

    suspect: bool = False
    """True if a service crashed or met an unforeseen error while it served the play. The second such release voids
    the play."""
