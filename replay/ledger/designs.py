"""Design jobs and designer groups: opening, leasing, closing.

If the run plays a pool, a job asks for a program of the pool. Nobody is paid for the program, so the job belongs to no
designer group.
"""

import msgspec

from replay.ledger import provenance
from replay.ledger.batches import count_waiting, enqueue
from replay.ledger.keys import group_id, make_environment_id, make_job_id, reject_key
from replay.ledger.pacing import compute_lag_bound
from replay.ledger.records import DesignGroup, Environment, Job, Member, Reject, RunningMean, Source
from replay.ledger.state import RunState
from replay.ledger.statistics import SlotFigures
from spade.pools import Entry
from spade.protocol import DesignJob, RejectCandidate, SubmitEnvironment


def open_jobs(state: RunState, count: int, now: float) -> None:
    """Open `count` new design jobs, in the order of their rounds. Opens fewer if the pool cannot draw more."""
    for _ in range(count):
        if state.pool is None:
            _open_job(state, now)
        elif (entry := state.pool.next(state.programs_in_use())) is not None:
            state.touch("meta", "draws", state.pool.draws)
            _open_job(state, now, entry)
        else:
            break


def _open_job(state: RunState, now: float, entry: Entry | None = None) -> None:
    """Open the next job. A round opens its jobs skill by skill, so that the designs of a group are of similar age.

    `entry` is the program of the pool that the job asks for. If it names a skill, the job has this skill.
    """
    skills, counters = state.config.run.skills, state.counters
    size, active = _count_current_round(state)
    each = size // active
    place = counters.round * active + counters.round_jobs // each
    skill = skills[place % len(skills)]
    job = Job(make_job_id(counters.jobs), counters.jobs, counters.round, skill, now)
    if entry is not None:
        job.program, job.skill, job.level = entry.name, entry.skill or skill, _choose_level(state, entry, job.id)
    counters.jobs += 1
    counters.round_jobs += 1
    state.add_job(job)
    state.touch("jobs", job.id, job)
    key = group_id(job.round, skill)
    if not job.program and key not in state.design_groups:
        design = state.config.design
        group = DesignGroup(key, job.round, skill, each, now + design.round_deadline_s, train=design.train)
        state.design_groups[key] = group
        state.touch("design_groups", key, group)


def _choose_level(state: RunState, entry: Entry, job: str) -> int:
    """Choose the level of a job for a pool program: the run's level, or a uniform draw from the program's window."""
    if state.levels is not None:
        return state.levels.windows[entry.name].drawn(state.seed("level", job))
    return state.config.pool.level if entry.levels else 0


def _count_current_round(state: RunState) -> tuple[int, int]:
    """Return the number of jobs and of skills in the next job's round. A new round begins when the last one is full.

    If a resume changes the settings, the present round keeps both numbers, because its designer groups depend on them.
    """
    design, counters = state.config.design, state.counters
    configured = design.round_jobs, design.active_skills
    shape = counters.round_shape or configured
    if counters.round_jobs >= shape[0]:
        counters.round += 1
        counters.round_jobs = 0
        shape = configured
    counters.round_shape = shape
    return shape


def lease(state: RunState, count: int, holder: str, request: int, now: float) -> tuple[DesignJob, ...]:
    """Lease up to `count` open jobs, the oldest first."""
    if held := state.job_leases.held(holder, request):
        return tuple(_make_design_job(state, job) for job in held)
    leased: list[DesignJob] = []
    while len(leased) < count and (job := state.job_leases.next()) is not None:
        leased.append(_lease(state, job, holder, request, now))
    return tuple(leased)


def _lease(state: RunState, job: Job, holder: str, request: int, now: float) -> DesignJob:
    if job.lease:
        job.earlier = (*job.earlier, job.seeds)
    state.job_leases.lease(job, holder, request, now + state.config.design.lease_s)
    return _make_design_job(state, job)


def _make_design_job(state: RunState, job: Job) -> DesignJob:
    """Return the job as sent to its holder, with examples drawn from the present memory, or the program to bring."""
    if job.program:
        return _make_pool_job(state, job)
    draw = state.seed("memory", job.id, job.lease)
    count, settings = state.config.design.memory_seeds, state.config
    seeds = state.memory.seeds(job.skill, count, draw, settings.ranks_by_regret, settings.hinted)
    avoid = state.memory.avoid(job.skill, settings.reward.regret_scale, draw, settings.hinted) if count else None
    job.seeds = tuple(seed.environment for seed in seeds)
    state.touch("jobs", job.id, job)
    return DesignJob(
        id=job.id,
        lease=job.lease,
        round=job.round,
        skill=job.skill,
        draw=state.seed("document", job.id),
        sampler=state.seed("design", job.id, job.lease),
        seeds=seeds,
        avoid=avoid,
    )


def _make_pool_job(state: RunState, job: Job) -> DesignJob:
    """Return the job of a pool program, with the same seed for each admission of the program.

    The job of a library's program has the seed of the first play instead, so that admission opens the same instance.
    """
    assert state.pool is not None
    digest = state.pool[job.program].program
    state.touch("jobs", job.id, job)
    opened = bool(state.config.pool.library)
    sampler = state.instance(make_environment_id(job), 0) if opened else state.seed("pool admission", digest)
    named = DesignJob(job.id, job.lease, job.round, job.skill, 0, sampler, program=job.program, digest=digest)
    return msgspec.structs.replace(named, level=job.level)


def release(state: RunState, job: Job) -> None:
    """Open a leased job again."""
    state.job_leases.release(job)
    state.touch("jobs", job.id, job)


def reject(state: RunState, request: RejectCandidate, now: float) -> None:
    """Store a rejected candidate. If it is the last candidate of the present lease, the job fails.

    Idempotent by (job, lease, attempt).
    """
    job = state.jobs.get(request.job)
    attempt = (request.lease, request.attempt)
    if job is None or attempt in job.attempts:
        return
    key = reject_key(job.id, request.lease, request.attempt)
    kept = Reject(
        job=job.id,
        lease=request.lease,
        attempt=request.attempt,
        skill=job.skill,
        document=request.document,
        completion=request.completion,
        stage=request.stage,
        reason=request.reason,
        at=now,
        shown=request.shown,
        setting=request.setting,
        variant=request.variant,
    )
    state.touch("rejects", key, kept)
    if request.trajectory is not None:
        state.touch("trajectories", key, request.trajectory)
    state.counters.rejected_candidates += 1
    state.statistics.add_candidate(valid=False, shown=len(request.shown))
    job.attempts = (*job.attempts, attempt)
    state.touch("jobs", job.id, job)
    if request.last and request.lease == job.lease:
        _fail(state, job, request, key, now)


def _fail(state: RunState, job: Job, request: RejectCandidate, trajectory: str, now: float) -> None:
    state.close_job(job, "failed")
    state.counters.failed_jobs += 1
    state.statistics.add_slot(SlotFigures(reward=0.0, learnable=False, skill=job.skill, variant=request.variant))
    if job.program:
        fail_program(state, job.program, job.level)
    if request.trajectory is None:
        return
    sampled = provenance.find_oldest(state.steps, request.trajectory)
    member = Member(trajectory, 0.0, sampled) if sampled else None
    close_member(state, job.round, job.skill, member, now)


def fail_program(state: RunState, program: str, level: int) -> None:
    """Record that a pool program cannot be played at this level. If no level is left, stop drawing the program."""
    assert state.pool is not None
    if state.levels is None or not state.levels.fail(program, level):
        state.pool.reject(program)
        state.touch("meta", "draws", state.pool.draws)


def admit(state: RunState, request: SubmitEnvironment, now: float) -> Environment | None:
    """Make an admitted program an active environment. Returns None if its job is closed (a repeated message)."""
    job = state.jobs.get(request.job)
    if job is None:
        return None
    state.close_job(job, "admitted")
    state.touch("jobs", job.id, job)
    environment = Environment(
        id=make_environment_id(job),
        job=job.id,
        round=job.round,
        skill=job.skill,
        name=request.name,
        document=request.document,
        attempt=request.attempt,
        seed_sensitive=request.seed_sensitive,
        designed_version=0 if request.trajectory is None else provenance.find_oldest(state.steps, request.trajectory),
        opened_at=now,
        deadline=now + state.config.play.window_deadline_s,
        parents=job.varied(request.lease, request.shown),
        repairs=request.repairs,
        program=job.program,
        measures=request.measures,
        setting=request.setting,
        variant=request.variant,
        level=job.level,
        grouped=state.config.play.instances == "group",
    )
    source = Source(request.source, request.hint, request.first_observation, request.reads, request.single_turn)
    state.add_environment(environment, source)
    state.touch("environments", environment.id, environment)
    state.touch("sources", environment.id, source)
    if request.trajectory is not None:
        state.touch("trajectories", job.id, request.trajectory)
    counters = state.counters
    counters.environments += 1
    counters.newest_environment, counters.newest_skill = request.name, job.skill
    state.statistics.add_candidate(valid=True, shown=len(request.shown))
    return environment


def close_member(state: RunState, round_: int, skill: str, member: Member | None, now: float) -> None:
    """Close a job of a designer group. Its trajectory joins the group, or is wasted if the group is already queued.

    `member` is the trajectory with its reward, or None if there is nothing to train. If `design.train` is off, it is
    ignored.
    """
    group = state.design_groups[group_id(round_, skill)]
    group.closed += 1
    state.touch("design_groups", group.id, group)
    if member is not None and group.train:
        mean = state.counters.designer_reward.setdefault(skill, RunningMean())
        if not group.members:
            group.before = mean.value if mean.count else None
        mean.add(member.reward)
        state.counters.trainable += 1
        state.counters.designer_trainable += 1
        if group.formed:
            state.counters.waste("designer", 1)
        else:
            group.members = (*group.members, member)
    if group.closed == group.jobs:
        if not group.formed:
            form(state, group, now)
        del state.design_groups[group.id]


def form(state: RunState, group: DesignGroup, now: float) -> None:
    """Make the group trainable with its present members."""
    group.formed = True
    state.touch("design_groups", group.id, group)
    if group.members:
        enqueue(state, group.id, "designer", group.members, now, group.before)


def expire(state: RunState, now: float, live: frozenset[str] | None) -> None:
    """Open jobs again if their lease is lost. End the wait of groups for missing designs when it takes too long.

    A group becomes trainable as it is if it is past its deadline, or if it would otherwise age too much.

    `live` names the connected holders. It is None if they are unknown.
    """
    for job in state.job_leases.lost(now, live):
        state.counters.expired_leases += 1
        release(state, job)
    # Sort them, because a restart changes the order of the dict.
    for group in sorted(state.design_groups.values(), key=lambda each: (each.deadline, each.id)):
        if not group.formed and (now >= group.deadline or _is_aging(state, group)):
            form(state, group, now)


def _is_aging(state: RunState, group: DesignGroup) -> bool:
    """Return True if the oldest member would be over the lag bound in any batch after the next one.

    The group then becomes trainable with its present members. They might all be wasted if it waited for the slowest
    window.
    """
    if not group.members:
        return False
    step = state.counters.taken_step + 1 + count_waiting(state) // state.config.learner.batch_sequences
    oldest = min(state.steps[member.version] for member in group.members)
    return state.lag(step, oldest) >= compute_lag_bound("designer", state.config)
