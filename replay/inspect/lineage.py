"""Follow the lineage of a play, a group, an environment, a design or a learner step's batch through the store."""

from collections.abc import Iterable

import msgspec

from replay.ledger.keys import (
    find_job,
    group_id,
    is_chunk,
    is_play,
    is_step,
    make_arm_prefix,
    make_chunk_id,
    make_environment_id,
    make_environment_prefix,
    make_version_key,
    reject_key,
)
from replay.ledger.records import (
    BatchRecord,
    DesignGroup,
    Environment,
    GroupRecord,
    Job,
    Member,
    PlayRecord,
    Publication,
    Reject,
    Source,
)
from replay.store import Store
from replay.store.past_batches import read_recorded
from spade.protocol import Trajectory, Weights

Runs = tuple[tuple[int, int], ...]


class GroupLine(msgspec.Struct, frozen=True):
    """A group with its members in order."""

    id: str
    role: str
    step: int | None
    """The learner step that trained the group, or None if the group is not trained yet."""
    baseline: float | None
    members: tuple[Member, ...]


class DesignLine(msgspec.Struct, frozen=True):
    """A design job and its result."""

    job: Job
    environment: Environment | None
    """The admitted environment, or None if no attempt has been admitted."""
    document: str
    """The document that the designer was given, or the name of a pool's program."""
    hint: str | None
    """The hint of the environment, or None without an environment or a hint."""
    parents: tuple[str, ...]
    """The environments of the memory that the designer was shown to vary."""
    trajectory: str
    """The key of the designer's trajectory; "" without one."""


class Lineage(msgspec.Struct, frozen=True):
    """All records to which an id leads. Each record occurs once."""

    kind: str
    id: str
    version: int | None
    """The policy version that a learner step was trained at; None if the id is not a step."""
    groups: tuple[GroupLine, ...]
    plays: tuple[PlayRecord, ...]
    designs: tuple[DesignLine, ...]
    versions: dict[str, Runs]
    """By key of each stored trajectory: runs (policy version, number of tokens) over its sampled tokens."""
    weights: tuple[Weights, ...]


class Tracer:
    """Follows ids through one commit of a store. Use it while the store is pinned."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._groups: dict[str, GroupLine] = {}
        for batch in store.scan("batches", BatchRecord):
            self._groups |= {group.id: _make_line(group, batch.step) for group in batch.groups}
        self._groups |= {group.id: _make_line(group, None) for group in store.scan("queue", GroupRecord)}

    def trace(self, id: str) -> Lineage | None:
        """Return the lineage of `id`, or None if the run does not know the id."""
        if is_step(id):
            return self._trace_step(id)
        if is_play(id):
            play = self._store.get("plays", id, PlayRecord)
            if play is None:
                return None
            return self._make_lineage(
                "play", id, self._get_group(make_chunk_id(play.environment, play.chunk)), [play], []
            )
        if is_chunk(id):
            prefixes = [make_arm_prefix(id, hinted) for hinted in (False, True)]
            plays = [play for prefix in prefixes for play in self._store.scan("plays", PlayRecord, prefix=prefix)]
            return self._make_lineage("group", id, self._get_group(id), plays, []) if plays else None
        if id in self._groups or self._store.get("design_groups", id, DesignGroup) is not None:
            return self._trace_designer_group(id)
        environment = self._store.get("environments", id, Environment)
        job = self._store.get("jobs", id if environment is None else environment.job, Job)
        if job is None:
            return None
        groups = self._get_group(_group_of(job))
        if environment is None:
            return self._make_lineage("design", id, groups, [], [job])
        chunks = [self._groups[key] for c in environment.chunks if (key := make_chunk_id(id, c.index)) in self._groups]
        plays = self._store.scan("plays", PlayRecord, prefix=make_environment_prefix(id))
        return self._make_lineage("environment", id, [*chunks, *groups], plays, [job])

    def _trace_step(self, id: str) -> Lineage | None:
        batch = read_recorded(self._store, int(id))
        if batch is None:
            return None
        groups = [_make_line(group, batch.step) for group in batch.groups]
        keys = [member.trajectory for group in groups if group.role == "agent" for member in group.members]
        plays = self._store.get_many("plays", keys, PlayRecord)
        jobs = self._get_jobs(member for group in groups if group.role == "designer" for member in group.members)
        return self._make_lineage("step", id, groups, plays, jobs, batch.version)

    def _trace_designer_group(self, id: str) -> Lineage:
        """Return the lineage of a designer group. A group that is not queued yet has its members so far."""
        group = self._groups.get(id)
        if group is None:
            unformed = self._store.get_many("design_groups", [id], DesignGroup)[0]
            group = GroupLine(id, "designer", None, unformed.before, unformed.members)
        return self._make_lineage("group", id, [group], [], self._get_jobs(group.members))

    def _get_jobs(self, members: Iterable[Member]) -> list[Job]:
        return self._store.get_many("jobs", [find_job(member.trajectory) for member in members], Job)

    def _get_group(self, group: str) -> list[GroupLine]:
        return [self._groups[group]] if group in self._groups else []

    def _make_lineage(
        self,
        kind: str,
        id: str,
        groups: list[GroupLine],
        plays: list[PlayRecord],
        jobs: list[Job],
        version: int | None = None,
    ) -> Lineage:
        """Return the lineage, with the designs of all plays' environments and all weights that sampled a token."""
        known = {job.id for job in jobs}
        environments = self._store.get_many(
            "environments", list(dict.fromkeys(p.environment for p in plays)), Environment
        )
        jobs = jobs + self._store.get_many("jobs", [e.job for e in environments if e.job not in known], Job)
        designs = tuple(self._make_design_line(job) for job in jobs)
        runs = self._count_runs([*(play.id for play in plays), *(design.trajectory for design in designs)])
        versions = {number for run in runs.values() for number, _ in run} | ({version} if version else set())
        keys = [make_version_key(number) for number in sorted(versions)]
        weights = tuple(one.weights for one in self._store.get_many("publications", keys, Publication))
        return Lineage(kind, id, version, tuple(groups), tuple(plays), designs, runs, weights)

    def _make_design_line(self, job: Job) -> DesignLine:
        environment = self._store.get("environments", make_environment_id(job), Environment)
        if environment is not None:
            hint = self._store.get_many("sources", [environment.id], Source)[0].hint or None
            return DesignLine(
                job, environment, environment.document, hint, environment.parents, "" if job.program else job.id
            )
        lease, attempt = job.attempts[-1] if job.attempts else (job.lease, 0)
        key = reject_key(job.id, lease, attempt)
        reject = self._store.get("rejects", key, Reject)
        if reject is None:
            return DesignLine(job, None, "", None, (), "")
        return DesignLine(job, None, reject.document, None, job.varied(lease, reject.shown), "" if job.program else key)

    def _count_runs(self, keys: Iterable[str]) -> dict[str, Runs]:
        kept = ((key, self._store.get("trajectories", key, Trajectory)) for key in keys)
        return {key: trajectory.versions for key, trajectory in kept if trajectory is not None}


def _group_of(job: Job) -> str:
    """Return the designer group of a job. Returns "" for a job of a pool, because it belongs to no group."""
    return "" if job.program else group_id(job.round, job.skill)


def _make_line(group: GroupRecord, step: int | None) -> GroupLine:
    return GroupLine(group.id, group.role, step, group.baseline, group.members)
