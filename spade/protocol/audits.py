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
    """If random actions win this number of plays, this is a finding."""

    win_return: float
    """Return from which a play counts as won."""

    max_turns: int
    """Greatest number of turns of a random play."""

    draw: int
    """Seed for the order of the replays and for the random actions."""

    within_s: float
    """Seconds for the audit. Plays that are not over by then are left out."""

    reads: Form = "inside"
    """Form in which random actions are sent to the program. Recorded actions are sent unchanged."""

    lost: Many[int] = ()
    """Instances that nobody won. The audit plays the actions of `solution()` on them."""

    hint: str = ""
    """Hint that the hinted plays were shown, or ""."""

    unaided: Many[UnaidedInstance] = ()
    """Instances that no play without the hint won. The audit searches them for words that the hint gives away."""


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

    The reply is `Refused` if the figures are impossible, or if another process has the lease.
    """

    environment: str
    """Id of the environment."""

    lease: int
    """Number of the audit's lease."""

    finding: str
    """The reason to quarantine the environment, or "" if the audit found nothing."""

    replays: Count
    """Number of recorded plays that were run again with a result."""

    left_out: Count
    """Number of recorded plays that were not run again, or without a result."""

    plays: Count
    """Number of random plays with a result."""

    wins: Count
    """Number of random plays that won."""

    steps: Count
    """Number of steps of the program in all plays of the audit."""

    seconds: float
    """Duration of the audit."""

    tried: Count = 0
    """Number of `lost` instances on which the solution was tried with a result. 0 if the solution lists no actions."""

    solved: Count = 0
    """Number of `lost` instances that the solution won."""

    cut_off: bool = False
    """True if the audit was not over within its time."""

    undecided: Count = 0
    """Number of checks of the hint or of the solution that came to no result."""
