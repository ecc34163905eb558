"""Make and parse the ids of a run's work and the keys of the store's tables. All functions are pure.

job              j000012
environment      e000012
chunk            e000012-0
play             e000012-0u003, with the hint e000012-0h003
designer group   r00001-maze
"""

import re

from replay.ledger.records import Environment, GroupRecord, Job, MemoryEntry, PlayRecord
from spade.protocol import Hello

_PLAY = re.compile(r"e\d+-\d+[uh]\d+")
_CHUNK = re.compile(r"e\d+-\d+")
_STEP = re.compile(r"\d{1,9}")
LEVEL_PREFIX = "level/"

# ---------------------------------------------------------------- jobs, their attempts and groups


def make_job_id(number: int) -> str:
    """Return the id of the design job with this number."""
    return f"j{number:06d}"


def group_id(round_: int, skill: str) -> str:
    """Return the id of a skill's designer group in a round."""
    return f"r{round_:05d}-{skill.replace(' ', '-')}"


def reject_key(job: str, lease: int, attempt: int) -> str:
    """Return the key of a rejected attempt and of its trajectory."""
    return f"{job}/{lease:03d}/{attempt:03d}"


def find_job(trajectory: str) -> str:
    """Return the job of a designer's trajectory. The trajectory's key is the job's id or a `reject_key`."""
    return trajectory.partition("/")[0]


# ---------------------------------------------------------------- environments, chunks, plays


def make_environment_id(job: Job) -> str:
    """Return the id that the environment of a job has or would have."""
    return f"e{job.number:06d}"


def make_chunk_id(environment: str, chunk: int) -> str:
    """Return the id of a chunk. The group that is formed of its plays has the same id."""
    return f"{environment}-{chunk}"


def play_id(chunk: str, hinted: bool, number: int) -> str:
    """Return the id of the play with this number within its arm of a chunk."""
    return f"{make_arm_prefix(chunk, hinted)}{number:03d}"


def compute_instance_number(environment: Environment, play: PlayRecord) -> int:
    """Return the number of a play's instance within the environment."""
    return play.chunk if environment.grouped else play.index


def make_environment_prefix(environment: str) -> str:
    """Return the prefix that all ids of an environment's plays share."""
    return f"{environment}-"


def make_arm_prefix(chunk: str, hinted: bool) -> str:
    """Return the prefix that all ids of plays in one arm of a chunk share."""
    return f"{chunk}{'h' if hinted else 'u'}"


def is_play(id: str) -> bool:
    """Return True for the id of a play."""
    return _PLAY.fullmatch(id) is not None


def is_chunk(id: str) -> bool:
    """Return True for the id of a chunk."""
    return _CHUNK.fullmatch(id) is not None


def is_step(id: str) -> bool:
    """Return True for the number of a learner step."""
    return _STEP.fullmatch(id) is not None


# ---------------------------------------------------------------- keys that sort


def make_queue_key(group: GroupRecord) -> str:
    """Return the key of a group. Keys sort in the order of the queue."""
    return f"{group.order:09d}"


def make_batch_key(step: int) -> str:
    """Return the key of a batch. Keys sort by step."""
    return f"{step:09d}"


def make_version_key(version: int) -> str:
    """Return the key of a publication. Keys sort by version."""
    return f"{version:09d}"


def make_memory_key(record: MemoryEntry) -> str:
    """Return the key of a memory record. Keys sort by age."""
    return f"{record.number:09d}"


def make_level_key(program: str) -> str:
    """Return the key of a pool program's window of levels."""
    return f"{LEVEL_PREFIX}{program}"


# ---------------------------------------------------------------- others


def make_imported_id(origin: str, environment: str) -> str:
    """Return the id of an environment from the memory of run `origin`. An imported environment keeps its id."""
    return environment if is_imported(environment) else f"{origin}:{environment}"


def make_seed_id(program: str) -> str:
    """Return the id of the environment that stands for a seed program (`design.seeds`). No run has the name SEED.

    The id sorts before the run's own environments.
    """
    return f"SEED:{program}"


def is_imported(environment: str) -> bool:
    """Return True for an environment from the memory of another run, and for a seed."""
    return ":" in environment


def make_attempt_id(job: str, attempt: int) -> str:
    """Return the id of an attempt at a job. It does not depend on the lease."""
    return f"{job}.{attempt}"


def make_quarantine_key(work: str, lease: int) -> str:
    """Return the key of one submission of a play or an attempt."""
    return f"{work}/{lease}"


def make_holder_id(hello: Hello) -> str:
    """Return the id under which a process holds leases. It includes the life, because pids repeat in containers."""
    return f"{hello.name}/{hello.life}-{hello.pid}"


def name_of(holder: str) -> str:
    """Return the name of a process, given its `make_holder_id`."""
    return holder.rpartition("/")[0]
