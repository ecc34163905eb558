"""Ids of a run's work and keys of the store's tables: every format, beside the functions that read it back. Pure.

job              j000012
environment      e000012
chunk            e000012-0
play             e000012-0u003, with the hint e000012-0h003
designer group   r00001-maze
"""

import re

from replay.ledger.records import GroupRecord, Job, Remembered
from spade.protocol import Hello

_PLAY = re.compile(r"e\d+-\d+[uh]\d+")
_CHUNK = re.compile(r"e\d+-\d+")
_STEP = re.compile(r"\d{1,9}")

# ---------------------------------------------------------------- jobs, their attempts and groups


def job_id(number: int) -> str:
    """The design job of a number."""
    return f"j{number:06d}"


def group_id(round_: int, skill: str) -> str:
    """The designer group of a skill in a round."""
    return f"r{round_:05d}-{skill.replace(' ', '-')}"


def reject_key(job: str, lease: int, attempt: int) -> str:
    """The key of a rejected attempt and of its trajectory."""
    return f"{job}/{lease:03d}/{attempt:03d}"


def job_of(trajectory: str) -> str:
    """The job of a designer's trajectory, whose key is the job's id or that of a rejected attempt."""
    return trajectory.partition("/")[0]


# ---------------------------------------------------------------- environments, chunks, plays


def environment_id(job: Job) -> str:
    """The id that the environment of a job has or would have."""
    return f"e{job.number:06d}"


def chunk_id(environment: str, chunk: int) -> str:
    """The id of a chunk, and of the queue's group that its plays become."""
    return f"{environment}-{chunk}"


def play_id(chunk: str, hinted: bool, number: int) -> str:
    """The play of a number within its arm of a chunk."""
    return f"{arm_prefix(chunk, hinted)}{number:03d}"


def environment_prefix(environment: str) -> str:
    """The beginning of the ids of an environment's plays."""
    return f"{environment}-"


def arm_prefix(chunk: str, hinted: bool) -> str:
    """The beginning of the ids of the plays of a chunk's arm."""
    return f"{chunk}{'h' if hinted else 'u'}"


def is_play(id: str) -> bool:
    """True for the id of a play."""
    return _PLAY.fullmatch(id) is not None


def is_chunk(id: str) -> bool:
    """True for the id of a chunk."""
    return _CHUNK.fullmatch(id) is not None


def is_step(id: str) -> bool:
    """True for the number of a learner step."""
    return _STEP.fullmatch(id) is not None


# ---------------------------------------------------------------- keys that sort


def queue_key(group: GroupRecord) -> str:
    """The key of a group; sorts in the order of the queue."""
    return f"{group.order:09d}"


def batch_key(step: int) -> str:
    """The key of a batch; sorts by step."""
    return f"{step:09d}"


def version_key(version: int) -> str:
    """The key of a publication; sorts by version."""
    return f"{version:09d}"


def memory_key(record: Remembered) -> str:
    """The key of a memory record; sorts by age."""
    return f"{record.number:09d}"


# ---------------------------------------------------------------- others


def imported_id(origin: str, environment: str) -> str:
    """An environment of the memory of run `origin`; one that was imported there keeps the name of its own run."""
    return environment if is_imported(environment) else f"{origin}:{environment}"


def seed_id(program: str) -> str:
    """The environment that stands for a seed, a program that the run began with; no run has that name.

    It sorts before the run's own environments, of which the last are the newest.
    """
    return f"SEED:{program}"


def is_imported(environment: str) -> bool:
    """True for an environment that came with the memory of another run, or is a seed."""
    return ":" in environment


def attempt_id(job: str, attempt: int) -> str:
    """An attempt at a job, whatever its lease."""
    return f"{job}.{attempt}"


def quarantine_key(work: str, lease: int) -> str:
    """The key of one submission of a play or an attempt."""
    return f"{work}/{lease}"


def holder_id(hello: Hello) -> str:
    """The name of a process in its leases; differs from that of an earlier process of the same name."""
    return f"{hello.name}/{hello.pid}"


def name_of(holder: str) -> str:
    """The name of the process that holds a lease."""
    return holder.rpartition("/")[0]
