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
    """Win rate without the hint, or None for a program of the run's seeds, which was never played."""

    reason: str = ""
    """The reason why a designer should avoid the environment, or ""."""


class DesignJob(Wire, frozen=True):
    """One slot to fill with a new environment.

    Attempts count from 1. If there is a corpus, attempt n gets the document with the index (`draw` + n - 1) modulo the
    number of documents.
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
    """Seed for sampling the model's tokens. For a program of a pool, the seed of its admission."""

    seeds: tuple[MemorySeed, ...] = ()
    """Environments of the memory that the prompt shows as examples to vary."""

    avoid: MemorySeed | None = None
    """Environment of the memory that the prompt shows as an example to avoid."""

    program: Name = ""
    """Name of the pool's program, which has one attempt to pass admission. "" if the designer writes a program."""

    digest: Name = ""
    """Digest of the pool's program."""

    level: int = 0
    """Level of difficulty of the pool's program, if the program has levels."""


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
    """Digest of the pool that the curator reads. "" for a designer."""


class Similarity(Wire, frozen=True):
    """The reply to `CompareProgram`: the most similar program among the seeds and the newest programs of the memory."""

    value: float | None = None
    """Similarity of that program, from 0 to 1, or None if there are no earlier programs."""

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
    """True if this was the last attempt. The job is then closed as failed."""

    shown: tuple[str, ...] = ()
    """Ids of the environments that the prompt showed as examples to vary or to avoid."""

    setting: Name = ""
    """Setting that the prompt of a tool-use design asked for, or ""."""

    variant: Name = ""
    """Variant that the prompt of a tool-use design asked for, or ""."""


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
    """Ids of the environments that the prompt showed as examples to vary or to avoid."""

    reads: Form = "inside"
    """Form of the actions that plays send to the program."""

    repairs: Repairs = ()
    """Repairs that were needed to find the program in the completion, or to admit the program."""

    measures: Measures = Measures()
    """Measures of the program."""

    setting: Name = ""
    """Setting that the prompt of a tool-use design asked for, or ""."""

    variant: Name = ""
    """Variant that the prompt of a tool-use design asked for, or ""."""

    single_turn: bool = False
    """True if every play of admission was over after its first action."""


class ReleaseDesign(Request[Done], frozen=True):
    """Give a job back, because the infrastructure failed or the designer leaves."""

    job: str
    """Id of the job."""

    lease: int
    """Number of the job's lease."""
