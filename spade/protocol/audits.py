"""Messages between env-runners and the replay service."""

from spade.protocol.base import Count, Form, Many, Request, Wire
from spade.protocol.session import Done
from spade.protocol.trajectories import Recording


class RecordedPlay(Wire, frozen=True):
    """A recorded play that an audit runs again."""

    play: str
    """Id of the play."""

    seed: int
    """Seed of the instance that was played."""

    recording: Recording
    """The actions of the play, and digests of the program's answers."""

    hinted: bool = False
    """True if the player was shown the hint."""


class UnaidedInstance(Wire, frozen=True):
    """An instance that no play without the hint won."""

    seed: int
    """Seed of the instance."""

    best: float
    """The greatest return of its plays without the hint."""


class AuditJob(Wire, frozen=True):
    """An environment to audit before its designer is paid."""

    environment: str
    """Id of the environment."""

    lease: int
    """Number of the lease. `Audited` repeats it."""

    source: str
    """Source text of the program."""

    replays: Many[RecordedPlay]
    """Recorded plays that must give the same answers again."""

    seeds: Many[int]
    """Instances to play with random actions, once each."""

    wins: int
    """Number of won random plays that counts as a finding."""

    win_return: float
    """Return from which a play counts as won."""

    max_turns: int
    """Turns of a random play."""

    draw: int
    """Seed for the order of the replays and for the random actions."""

    within_s: float
    """Seconds for the audit. Plays that are not over by then are left out."""

    reads: Form = "inside"
    """Form of a random action. Recorded actions are sent unchanged."""

    lost: Many[int] = ()
    """Instances that nobody won. The audit plays the actions of `solution()` on them."""

    hint: str = ""
    """Hint of the hinted plays, or ""."""

    unaided: Many[UnaidedInstance] = ()
    """Instances that no play without the hint won. The audit reports words of the hint that win them as given away."""


class Audits(Wire, frozen=True):
    """The reply to `LeaseAudit`: one leased audit, or nothing if no audit is due now."""

    jobs: tuple[AuditJob, ...] = ()
    """At most one audit."""


class LeaseAudit(Request[Audits], frozen=True):
    """Ask for an audit to run."""

    wait_s: float
    """Seconds to wait for an audit."""


class Audited(Request[Done], frozen=True):
    """Report that an audit is over. Idempotent by environment.

    Refused: the figures make no sense, or another holder has the lease.
    """

    environment: str
    """Id of the environment."""

    lease: int
    """Number of the audit's lease."""

    finding: str
    """The reason to quarantine the environment, or "" if the audit found nothing."""

    replays: Count
    """Recorded plays that ran again to a result."""

    left_out: Count
    """Recorded plays without a result."""

    plays: Count
    """Random plays that ran."""

    wins: Count
    """Random plays that won."""

    steps: Count
    """Steps of the environment, in all these plays."""

    seconds: float
    """Duration of the audit."""

    tried: Count = 0
    """Lost instances on which the solution came to a result. 0 if the solution lists no actions."""

    solved: Count = 0
    """Lost instances that the solution won."""
