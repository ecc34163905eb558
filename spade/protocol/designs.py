"""Designers, curators and the replay service."""

from spade.protocol.base import Form, Name, Repairs, Request, Wire
from spade.protocol.measures import Measures
from spade.protocol.session import Done
from spade.protocol.trajectories import Trajectory


class MemorySeed(Wire, frozen=True):
    """An environment of the memory as the designer is shown it; `reason`: why to avoid it.

    `regret` is None if it was not played with a hint, `win_rate` if it was not played at all: a seed of the run.
    """

    environment: str
    source: str
    regret: float | None
    win_rate: float | None
    reason: str = ""


class EarlierProgram(Wire, frozen=True):
    """A program that a new one is compared with."""

    environment: str
    source: str


class DesignJob(Wire, frozen=True):
    """One slot to fill.

    Attempt n (from 1) is given document (draw + n - 1) mod the size of the corpus, if there is one. `draw` also
    determines the other demands on all attempts; `sampler` seeds the sampling. `program` and `digest` name
    the program of a pool to bring in one attempt, at `level` where it has levels; then `sampler` seeds its admission.
    `newest` are programs of the memory that the new one may not resemble, the newest first.
    """

    id: str
    lease: int
    round: int
    skill: str
    draw: int
    sampler: int
    seeds: tuple[MemorySeed, ...] = ()
    avoid: MemorySeed | None = None
    program: Name = ""
    digest: Name = ""
    newest: tuple[EarlierProgram, ...] = ()
    level: int = 0


class Designs(Wire, frozen=True):
    """Design jobs, leased; empty: none now."""

    jobs: tuple[DesignJob, ...] = ()


class LeaseDesigns(Request[Designs], frozen=True):
    """Ask for up to `count` design jobs, waiting up to `wait_s` for one. `pool`: digest of a curator's list."""

    count: int
    wait_s: float
    pool: Name = ""


class RejectCandidate(Request[Done], frozen=True):
    """An attempt that failed admission; `last` closes the job as failed. Kept with its reason.

    `shown`: the environments of the memory that its prompt had, to vary and to avoid. Without a trajectory: a program
    of a pool, which is the completion. `setting`, `variant`: what it was asked for, "" where the prompt has none.
    """

    job: str
    lease: int
    attempt: int
    document: str
    completion: str
    stage: str
    reason: str
    trajectory: Trajectory | None
    last: bool
    shown: tuple[str, ...] = ()
    setting: Name = ""
    variant: Name = ""


class SubmitEnvironment(Request[Done], frozen=True):
    """An admitted program with its hint.

    `shown`, `setting` and `variant` are as in RejectCandidate, `reads` and `single_turn` as in Verdict.

    `document` and `hint` are "" if it was designed without. `repairs`: those that were needed to find the program in
    the completion, or to admit it. Idempotent by job. Without a trajectory: a program of a pool, whose name is the
    document.
    """

    job: str
    lease: int
    attempt: int
    document: str
    name: str
    source: str
    hint: str
    seed_sensitive: bool
    first_observation: str
    trajectory: Trajectory | None
    shown: tuple[str, ...] = ()
    reads: Form = "inside"
    repairs: Repairs = ()
    measures: Measures = Measures()
    setting: Name = ""
    variant: Name = ""
    single_turn: bool = False


class ReleaseDesign(Request[Done], frozen=True):
    """Give a job back (the infrastructure failed, or the designer leaves)."""

    job: str
    lease: int
