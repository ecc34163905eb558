"""Env-runners and the replay service."""

from spade.protocol.base import Count, Form, Many, Request, Wire
from spade.protocol.session import Done
from spade.protocol.trajectories import Recording


class RecordedPlay(Wire, frozen=True):
    """A recorded play to run again on its instance `seed`. `hinted`: its player was shown the hint."""

    play: str
    seed: int
    recording: Recording
    hinted: bool = False


class AuditJob(Wire, frozen=True):
    """An environment to audit before its designer is paid.

    replays     recorded plays that must come out as they did
    seeds       instances to play with random actions, each of them once
    wins        number of won random plays that is a finding
    max_turns   turns of a random play
    draw        seeds the order of the replays and the random actions
    within_s    seconds; plays that are not over by then are left out
    reads       the form of a random action; recorded actions are sent unchanged
    lost        instances that nobody won, to play with the actions of `solution()`
    hint        the hint of the hinted plays; "" if there is none
    """

    environment: str
    lease: int
    source: str
    replays: Many[RecordedPlay]
    seeds: Many[int]
    wins: int
    win_return: float
    max_turns: int
    draw: int
    within_s: float
    reads: Form = "inside"
    lost: Many[int] = ()
    hint: str = ""


class Audits(Wire, frozen=True):
    """At most one audit, leased; empty: none now."""

    jobs: tuple[AuditJob, ...] = ()


class LeaseAudit(Request[Audits], frozen=True):
    """Ask for an audit, waiting up to `wait_s` for one."""

    wait_s: float


class Audited(Request[Done], frozen=True):
    """An audit is over. Idempotent by environment. Refused: the figures make no sense, or the lease is another's.

    finding   why the environment is quarantined; "" where nothing was found
    replays   recorded plays that were run again to a result, `left_out` those without one
    plays     random plays that were run, `wins` those that were won
    steps     of the environment, in all these plays
    tried     lost instances on which the solution came to a result, `solved` those that it won; 0: it lists no actions
    """

    environment: str
    lease: int
    finding: str
    replays: Count
    left_out: Count
    plays: Count
    wins: Count
    steps: Count
    seconds: float
    tried: Count = 0
    solved: Count = 0
