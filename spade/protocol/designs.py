"""Messages between designers, curators and the replay service."""

from spade.protocol.base import Form, Name, Repairs, Request, Wire
from spade.protocol.measures import Measures
from spade.protocol.session import Done
from spade.protocol.trajectories import Trajectory


class MemorySeed(Wire, frozen=True):
    """An environment of the memory, as the designer sees it."""

    environment: str
    """Id of the environment."""

    source: str
    """Source text of the program."""

    regret: float | None
    """Regret of the environment, or None if it was not played with a hint."""

    win_rate: float | None
    """Unhinted win rate, or None if the environment was never played: it is a seed of the run."""

    reason: str = ""
    """The reason to avoid the environment, or ""."""


class DesignJob(Wire, frozen=True):
    """One slot to fill with a new environment.

    Attempts count from 1. If there is a corpus, attempt n is given document (`draw` + n - 1) modulo the corpus size.
    """

    id: str
    """Id of the job."""

    lease: int
    """Number of the lease. The designer's answer repeats it."""

    round: int
    """Round of designs to which the slot belongs."""

    skill: str
    """Skill that the environment should exercise."""

    draw: int
    """Random number from which the document and all other demands on the attempts are derived."""

    sampler: int
    """Seed of the sampling. For a program of a pool, the seed of its admission."""

    seeds: tuple[MemorySeed, ...] = ()
    """Environments of the memory to vary."""

    avoid: MemorySeed | None = None
    """Environment of the memory to avoid."""

    program: Name = ""
    """Name of the pool's program to admit, in one attempt. "" if the designer writes a program."""

    digest: Name = ""
    """Digest of the pool's program."""

    level: int = 0
    """Level of the pool's program, if the program has levels."""


class Designs(Wire, frozen=True):
    """The reply to `LeaseDesigns`: leased design jobs, or nothing if no slot is free now."""

    jobs: tuple[DesignJob, ...] = ()
    """Design jobs to work on."""


class LeaseDesigns(Request[Designs], frozen=True):
    """Ask for design jobs."""

    count: int
    """Greatest number of jobs to lease."""

    wait_s: float
    """Seconds to wait for the first job."""

    pool: Name = ""
    """Digest of the curator's list of programs. "" for a designer."""


class Similarity(Wire, frozen=True):
    """The similarity of a program to the most similar of the newest programs of the memory and the seeds."""

    value: float | None = None
    """Similarity from 0 to 1, or None if there is no earlier program."""

    environment: str = ""
    """Id of the most similar program's environment."""


class CompareProgram(Request[Similarity], frozen=True):
    """Compare an admitted program with earlier programs."""

    source: str
    """Source text of the program."""


class RejectCandidate(Request[Done], frozen=True):
    """Report an attempt that failed admission. The replay service keeps the attempt with its reason."""

    job: str
    """Id of the job."""

    lease: int
    """Number of the job's lease."""

    attempt: int
    """Number of the attempt, from 1."""

    document: str
    """Document of the attempt, or "". For a program of a pool, the name of the program."""

    completion: str
    """Text that the model wrote. For a program of a pool, its source."""

    stage: str
    """Stage of admission that failed."""

    reason: str
    """The reason for the failure."""

    trajectory: Trajectory | None
    """Tokens of the attempt, or None for a program of a pool."""

    last: bool
    """True closes the job as failed."""

    shown: tuple[str, ...] = ()
    """Environments from the memory that the prompt showed, to be varied or avoided."""

    setting: Name = ""
    """Setting that the prompt asked for, or ""."""

    variant: Name = ""
    """Variant that the prompt asked for, or ""."""


class SubmitEnvironment(Request[Done], frozen=True):
    """Hand in an admitted program with its hint. Idempotent by job."""

    job: str
    """Id of the job."""

    lease: int
    """Number of the job's lease."""

    attempt: int
    """Number of the attempt, from 1."""

    document: str
    """Document of the attempt, or "". For a program of a pool, the name of the program."""

    name: str
    """Name of the program's class."""

    source: str
    """Source text of the program."""

    hint: str
    """The hint, or ""."""

    seed_sensitive: bool
    """True if the seed changes the program's answers."""

    first_observation: str
    """First observation that admission saw."""

    trajectory: Trajectory | None
    """Tokens of the attempt, or None for a program of a pool."""

    shown: tuple[str, ...] = ()
    """As in RejectCandidate."""

    reads: Form = "inside"
    """As in Verdict."""

    repairs: Repairs = ()
    """Repairs that were needed to find the program in the completion, or to admit the program."""

    measures: Measures = Measures()
    """Measures of the program."""

    setting: Name = ""
    """As in RejectCandidate."""

    variant: Name = ""
    """As in RejectCandidate."""

    single_turn: bool = False
    """As in Verdict."""


class ReleaseDesign(Request[Done], frozen=True):
    """Give a job back, because the infrastructure failed or the designer leaves."""

    job: str
    """Id of the job."""

    lease: int
    """Number of the job's lease."""
