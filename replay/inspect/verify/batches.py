"""Check the records of training: designer groups, the queue, batches, versions, and their counts."""

from collections import Counter
from collections.abc import Iterable, Iterator

from replay.inspect.contents import StoreContents
from replay.ledger.keys import find_job, group_id, make_arm_prefix, make_environment_id, reject_key
from replay.ledger.records import GroupRecord, Member
from spade.returns import has_different_returns


def find_training_problems(found: StoreContents) -> Iterator[str]:
    """Yield one line for each violation."""
    for check in (_check_design_groups, _check_groups, _check_batches, _check_conservation, _check_publications):
        yield from check(found)


def _check_design_groups(found: StoreContents) -> Iterator[str]:
    closed: dict[str, int] = {}
    for job in found.jobs.values():
        environment = found.environments.get(make_environment_id(job))
        if job.program:
            continue
        if job.state == "failed" or (environment is not None and environment.state != "active"):
            name = group_id(job.round, job.skill)
            closed[name] = closed.get(name, 0) + 1
    for key, group in found.design_groups.items():
        if group.closed != closed.get(key, 0) or group.closed > group.jobs:
            yield f"design_groups {key}: {group.closed} of {group.jobs} jobs closed, in truth {closed.get(key, 0)}"
        if group.members and not group.train:
            yield f"design_groups {key}: has members, although it is not trained"
        for member in group.members:
            yield from (f"design_groups {key}: {line}" for line in _check_design_member(found, member))


def _check_design_member(found: StoreContents, member: Member) -> Iterator[str]:
    """Check that a member of a designer group matches the result of its job."""
    job = found.jobs.get(find_job(member.trajectory))
    tokens = found.trajectories.get(member.trajectory)
    if job is None or (tokens is None and member.trajectory not in found.dropped):
        yield f"its member {member.trajectory} is missing"
        return
    environment = found.environments.get(make_environment_id(job))
    score = None if environment is None else environment.score
    reward = 0.0 if job.state == "failed" else None if score is None else score.reward
    if member.reward != reward:
        yield f"its member {member.trajectory} has the reward {member.reward}, its job {reward}"
    if tokens is not None and member.version != tokens.oldest:
        yield f"its member {member.trajectory} has the version {member.version}, its trajectory {tokens.oldest}"


def _check_groups(found: StoreContents) -> Iterator[str]:
    """Check that no group or trajectory is trained twice, and that each matches its plays or its design."""
    orders = Counter(group.order for _, group in found.groups())
    trajectories = Counter(member.trajectory for _, group in found.groups() for member in group.members)
    for order, count in orders.items():
        if count > 1 or order >= found.counters.queued:
            yield f"queue: place {order} of {found.counters.queued} was given to {count} groups"
    for trajectory, count in trajectories.items():
        if count > 1:
            yield f"trajectories {trajectory}: is in {count} trainable groups"
    for batch, group in found.groups():
        where = f"queue {group.id}" if batch is None else f"batches {batch.step}: {group.id}"
        check = _check_agent_member if group.role == "agent" else _check_design_member
        for member in group.members:
            yield from (f"{where}: {line}" for line in check(found, member))
        unhinted = make_arm_prefix(group.id, hinted=False)
        if group.role == "agent" and any(not member.trajectory.startswith(unhinted) for member in group.members):
            yield f"{where}: a member is not an unhinted play of this chunk"


def _check_agent_member(found: StoreContents, member: Member) -> Iterator[str]:
    play = found.plays.get(member.trajectory)
    if play is None or play.state != "finished":
        yield f"its member {member.trajectory} is not a finished play"
    elif (member.reward, member.version) != (play.episode_return, play.version):
        yield (
            f"its member {member.trajectory} has return {member.reward} and version {member.version}, "
            f"the play {play.episode_return} and {play.version}"
        )


def _check_batches(found: StoreContents) -> Iterator[str]:
    """Check that each step exists once and in order, has groups, and trains on no tokens newer than its version."""
    counters = found.counters
    steps = [batch.step for batch in found.batches.values()]
    if steps != list(range(1, counters.taken_step + 1)):
        yield f"batches: the {len(steps)} records are not those of the {counters.taken_step} steps that were taken"
    if counters.retired_step > counters.taken_step:
        yield f"batches: step {counters.retired_step} retired, the last one taken is {counters.taken_step}"
    for batch in found.batches.values():
        if not batch.groups:
            yield f"batches {batch.step}: is empty"
        for group in batch.groups:
            if newer := [member.trajectory for member in group.members if member.version > batch.version]:
                yield f"batches {batch.step}: trained at version {batch.version}, {newer[0]} is newer"
    orders = [group.order for batch in found.batches.values() for group in batch.groups]
    if orders != sorted(orders):
        yield "batches: groups were not taken in the order they became trainable"


def _check_conservation(found: StoreContents) -> Iterator[str]:
    """Check that each trainable trajectory was trained or wasted, or waits: over all trajectories and over designs."""
    counters = found.counters
    taken = [group for batch, group in found.groups() if batch is not None]
    designers = [group for group in taken if group.role == "designer"]
    if len(designers) != counters.designer_groups:
        yield f"batches: hold {len(designers)} designer groups, {counters.designer_groups} were counted"
    queued = list(found.queue.values())
    pending = sum(len(group.members) for group in found.design_groups.values() if not group.formed)
    plays, designs = _count_trainable_plays(found), _count_trainable_designs(found)
    yield from _check_balance(
        "trajectories", plays + designs, _count_members(taken), _count_members(queued) + pending,
        (counters.trainable, counters.trained, counters.wasted),
    )  # fmt: skip
    yield from _check_balance(
        "designs", designs, _count_members(designers),
        _count_members(g for g in queued if g.role == "designer") + pending,
        (counters.designer_trainable, counters.designer_trained, counters.designer_wasted),
    )  # fmt: skip


def _check_balance(what: str, made: int, taken: int, waiting: int, counted: tuple[int, int, int]) -> Iterator[str]:
    """Compare numbers of trajectories in the records with `counted`, the counters (trainable, trained, wasted).

    `made` must have become trainable, `taken` are in batches, `waiting` are in the queue or in unformed groups.
    """
    trainable, trained, wasted = counted
    if taken != trained:
        yield f"batches: hold {taken} {what}, {trained} were counted"
    if made != trainable:
        yield f"counters: {trainable} {what} became trainable, the plays and designs say {made}"
    if trainable != trained + wasted + waiting:
        yield (
            f"counters: {trainable} {what} became trainable, but {trained} were trained, {wasted} wasted and "
            f"{waiting} wait"
        )


def _count_members(groups: Iterable[GroupRecord]) -> int:
    return sum(len(group.members) for group in groups)


def _count_trainable_plays(found: StoreContents) -> int:
    """Count the plays that must have become trainable: unhinted plays of scored chunks with different returns."""
    count = 0
    for (owner, index), plays in found.chunks().items():
        environment = found.environments.get(owner)
        if environment is None or index >= len(environment.chunks) or environment.chunks[index].scored_at is None:
            continue
        returns = [p.episode_return for p in plays if p.state == "finished" and not p.hinted and p.sampled]
        count += len(returns) if has_different_returns(returns) else 0
    return count


def _count_trainable_designs(found: StoreContents) -> int:
    """Count the designs that must have become trainable: those with a reward, in groups that are trained."""
    trained = {key for key, group in found.design_groups.items() if group.train}
    count = 0
    for environment in found.environments.values():
        score = environment.score
        sampled = score is not None and score.reward is not None and environment.designed_version > 0
        count += sampled and group_id(environment.round, environment.skill) in trained
    for job in found.jobs.values():
        if job.state == "failed" and group_id(job.round, job.skill) in trained:
            lease, attempt = job.attempts[-1]
            key = reject_key(job.id, lease, attempt)
            last = found.trajectories.get(key)
            count += key in found.dropped or (last is not None and last.sampled > 0)
    return count


def _check_publications(found: StoreContents) -> Iterator[str]:
    """Check that versions count up by one, that each is used once, and that the newest is the last."""
    versions = [publication.weights.version for publication in found.publications.values()]
    if versions != list(range(1, len(versions) + 1)):
        yield f"publications: the {len(versions)} versions are not 1 to {len(versions)}"
    newest = found.counters.newest
    last = next(reversed(found.publications.values()), None)
    if newest != last:
        yield "publications: the newest record is not the newest publication in the counters"
    for key, publication in found.publications.items():
        if not 0 <= publication.weights.step <= found.counters.taken_step:
            yield f"publications {key}: is of step {publication.weights.step}, which was never taken"
