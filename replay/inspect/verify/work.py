"""Check jobs, rejects, environments, plays and trajectories: that each record exists and agrees with the others."""

import math
from collections import Counter
from collections.abc import Iterator

from replay.inspect.contents import StoreContents
from replay.ledger.keys import group_id, is_imported, make_chunk_id, make_environment_id, reject_key
from replay.ledger.records import PlayRecord

OPEN = ("open", "leased")


def find_work_problems(found: StoreContents) -> Iterator[str]:
    """Yield one line for each violation."""
    for check in (
        _check_jobs,
        _check_pool,
        _check_levels,
        _check_rejects,
        _check_environments,
        _check_audits,
        _check_plays,
        _check_trajectories,
    ):
        yield from check(found)


def _check_jobs(found: StoreContents) -> Iterator[str]:
    counters = found.counters
    if sorted(job.number for job in found.jobs.values()) != list(range(counters.jobs)):
        yield f"jobs: the {len(found.jobs)} records are not those of the {counters.jobs} jobs that were opened"
    failed = sum(job.state == "failed" for job in found.jobs.values())
    if failed != counters.failed_jobs:
        yield f"jobs: {failed} failed, {counters.failed_jobs} were counted"
    for key, job in found.jobs.items():
        if (job.state == "admitted") != (exists := make_environment_id(job) in found.environments):
            environment = f"{make_environment_id(job)} {'exists' if exists else 'is missing'}"
            yield f"jobs {key}: is {job.state}, but its environment {environment}"
        if (job.state == "leased") != bool(job.holder) and job.state in OPEN:
            yield f"jobs {key}: is {job.state} and held by {job.holder or 'nobody'}"
        if not job.program and group_id(job.round, job.skill) not in found.design_groups:
            yield f"jobs {key}: its designer group {group_id(job.round, job.skill)} is missing"
        for lease, attempt in job.attempts:
            if reject_key(key, lease, attempt) not in found.rejects:
                yield f"jobs {key}: its rejected attempt {lease}/{attempt} is missing"


def _check_pool(found: StoreContents) -> Iterator[str]:
    """Check that jobs draw from the pool without replacement, pass after pass.

    No program may be in use twice at the same time.
    """
    entries = () if found.pool is None else found.pool.entries
    rejected = {entries[index].name for index in found.draws.rejected}
    playable = {entry.name for entry in entries} - rejected
    drawn: set[str] = set()
    for job in sorted(found.jobs.values(), key=lambda job: job.number):
        if bool(job.program) != bool(entries):
            yield f"jobs {job.id}: asks for the program {job.program!r}, the pool has {len(entries)}"
        elif job.program in drawn:
            if missing := playable - drawn:
                yield f"jobs {job.id}: draws {job.program} again, this pass has not drawn {min(missing)} yet"
            drawn = set()
        drawn.add(job.program)
    active = [job.program for job in found.jobs.values() if job.program and job.state in OPEN]
    active += [each.program for each in found.environments.values() if each.program and each.state == "active"]
    yield from (f"jobs: the program {name} is active {n} times" for name, n in Counter(active).items() if n > 1)


def _check_levels(found: StoreContents) -> Iterator[str]:
    for name, window in found.windows.items():
        if not (0 <= window.low <= window.high and 0 <= window.wins <= window.plays):
            yield f"meta: the window of {name} is impossible: {window}"
    for key, environment in found.environments.items():
        job = found.jobs.get(environment.job)
        if job is not None and job.level != environment.level:
            yield f"environments {key}: is of level {environment.level}, its job asked for {job.level}"


def _check_rejects(found: StoreContents) -> Iterator[str]:
    if len(found.rejects) != found.counters.rejected_candidates:
        yield f"rejects: {len(found.rejects)} are stored, {found.counters.rejected_candidates} were counted"
    for key, reject in found.rejects.items():
        job = found.jobs.get(reject.job)
        if job is None or (reject.lease, reject.attempt) not in job.attempts:
            yield f"rejects {key}: its job {reject.job} does not list it"
        if key not in found.trajectories and key not in found.dropped and not (job and job.program):
            yield f"rejects {key}: its trajectory is missing"


def _check_environments(found: StoreContents) -> Iterator[str]:
    if len(found.environments) != found.counters.environments:
        yield f"environments: {len(found.environments)} are stored, {found.counters.environments} were admitted"
    for key, environment in found.environments.items():
        job = found.jobs.get(environment.job)
        if (
            job is None
            or make_environment_id(job) != key
            or (job.round, job.skill) != (environment.round, environment.skill)
        ):
            yield f"environments {key}: its job {environment.job} is missing, or has another id, round or skill"
        if key not in found.sources:
            yield f"environments {key}: its program is missing"
        design = found.trajectories.get(environment.job)
        if job is not None and job.program != environment.program:
            yield f"environments {key}: is of the program {environment.program!r}, its job asks for {job.program!r}"
        if design is None and environment.job not in found.dropped and not environment.program:
            yield f"environments {key}: its designer's trajectory {environment.job} is missing"
        if design is not None and design.oldest != environment.designed_version:
            yield f"environments {key}: designed at version {environment.designed_version}, sampled at {design.oldest}"
        for parent in environment.parents:
            if parent not in found.sources:
                yield f"environments {key}: its memory parent {parent} is missing"
        closed = environment.state != "active"
        if closed != (environment.score is not None) or closed != (environment.closed_at is not None):
            yield f"environments {key}: is {environment.state}, but its score or its closing time does not fit this"
        if [chunk.index for chunk in environment.chunks] != list(range(len(environment.chunks))):
            yield f"environments {key}: its chunks are not numbered from 0"
    for key in found.sources:
        if key not in found.environments and not is_imported(key):
            yield f"sources {key}: belongs to no environment"


def _check_audits(found: StoreContents) -> Iterator[str]:
    """Check that the audits of active environments are open, and that the audits of all others are over.

    Recordings may exist only in active environments, where they wait for an audit.
    """
    outcomes: Counter[str] = Counter()
    for key, environment in found.environments.items():
        audit = environment.audit
        if audit is None:
            continue
        over = audit.state not in OPEN
        outcomes[audit.state] += 1
        if over != (environment.state != "active"):
            yield f"environments {key}: is {environment.state}, its audit {audit.state}"
        if over and (audit.state == "failed") != (environment.state == "quarantined"):
            yield f"environments {key}: is {environment.state} after an audit that {audit.state}"
    failed, left_out = outcomes["failed"], outcomes["left out"] + outcomes["late"]
    over_in_all = outcomes["passed"] + failed + left_out
    counted = found.counters.audits, found.counters.audit_findings, found.counters.audits_left_out
    if counted != (over_in_all, failed, left_out):
        yield (
            f"environments: {over_in_all} audits are over, {failed} of them failed and "
            f"{left_out} left out, {counted} were counted"
        )
    for key in found.recordings:
        play = found.plays.get(key)
        owner = None if play is None else found.environments.get(play.environment)
        if play is None or play.state != "finished" or owner is None or owner.state != "active":
            yield f"recordings {key}: belongs to no finished play of an active environment"


def _check_plays(found: StoreContents) -> Iterator[str]:
    counts = Counter(play.state for play in found.plays.values())
    if (counts["finished"], counts["void"]) != (found.counters.plays, found.counters.voids):
        yield (
            f"plays: {counts['finished']} finished and {counts['void']} void, "
            f"{found.counters.plays} and {found.counters.voids} were counted"
        )
    for key, play in found.plays.items():
        environment = found.environments.get(play.environment)
        if environment is None or play.chunk >= len(environment.chunks):
            yield f"plays {key}: its chunk {make_chunk_id(play.environment, play.chunk)} is missing"
        elif environment.state != "active" and play.state in OPEN:
            yield f"plays {key}: is {play.state} in a window that closed"
        yield from _play(key, play, found)
    for (owner, chunk), plays in found.chunks().items():
        arms = [sorted(play.index for play in plays if play.hinted == hinted) for hinted in (False, True)]
        if len(set(arms[0])) != len(arms[0]) or (arms[1] and arms[0] != arms[1]):
            yield f"plays {make_chunk_id(owner, chunk)}: its two arms must play the same instances, each once"


def _play(key: str, play: PlayRecord, found: StoreContents) -> Iterator[str]:
    tokens = found.trajectories.get(key)
    if (play.state == "finished") != (tokens is not None) and key not in found.dropped:
        yield f"plays {key}: is {play.state} and {'has no' if tokens is None else 'has a'} trajectory"
    if tokens is not None:
        if tokens.sampled != play.sampled:
            yield f"plays {key}: {play.sampled} sampled tokens, {tokens.sampled} in its trajectory"
        if tokens.versions and tokens.oldest != play.version:
            yield f"plays {key}: has version {play.version}, its trajectory has {tokens.oldest}"
    if not (math.isfinite(play.episode_return) and -1 <= play.episode_return <= 1):
        yield f"plays {key}: its return is {play.episode_return}"


def _check_trajectories(found: StoreContents) -> Iterator[str]:
    for key, tokens in found.trajectories.items():
        job = found.jobs.get(key)
        designed = job is not None and job.state == "admitted" and not job.program
        if key not in found.plays and key not in found.rejects and not designed:
            yield f"trajectories {key}: belongs to no play or design"
        if tokens.flaw:
            yield f"trajectories {key}: {tokens.flaw}, and it is not in quarantine"
    if len(found.quarantine) != found.counters.quarantined:
        yield f"quarantine: {len(found.quarantine)} are stored, {found.counters.quarantined} were counted"
    yield from (f"quarantine {key}: its provenance is sound" for key, flaw in found.quarantine.items() if not flaw)
