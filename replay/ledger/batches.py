"""The queue of trainable groups, batches and versions."""

from typing import Literal

from replay.ledger import provenance
from replay.ledger.keys import make_batch_key, make_queue_key, make_version_key
from replay.ledger.pacing import compute_lag_bound
from replay.ledger.records import BatchRecord, GroupRecord, Member, Publication
from replay.ledger.state import RunState
from spade.protocol import Publish, Weights
from spade.returns import has_different_returns


class RefusalError(Exception):
    """A request can never be served. The error's text is sent back to the sender of the request."""


def enqueue(
    state: RunState,
    id: str,
    role: Literal["agent", "designer"],
    members: tuple[Member, ...],
    now: float,
    before: float | None = None,
) -> None:
    """Append a trainable group to the queue. `before`: see `GroupRecord`."""
    counters = state.counters
    group = GroupRecord(counters.queued, id, role, members, now, before)
    counters.queued += 1
    state.queue[group.order] = group
    state.touch("queue", make_queue_key(group), group)


def count_waiting(state: RunState) -> int:
    """Return the number of sequences in the queue."""
    return sum(len(group.members) for group in state.queue.values())


def drop_stale(state: RunState, now: float) -> None:
    """Drop groups past their deadline, and members that would exceed the lag bound in the next batch.

    Count them as wasted. A group keeps its other members if something can still be learned from them.
    """
    learner = state.config.learner
    step = state.counters.taken_step + 1
    for group in list(state.queue.values()):
        bound = compute_lag_bound(group.role, state.config)
        fresh = tuple(member for member in group.members if state.lag(step, state.steps[member.version]) <= bound)
        late = now >= group.ready_at + learner.group_deadline_s
        if late or not _has_lesson(group, fresh):
            fresh = ()
        if len(fresh) == len(group.members):
            continue
        state.counters.waste(group.role, len(group.members) - len(fresh))
        group.members = fresh
        if fresh:
            state.touch("queue", make_queue_key(group), group)
        else:
            del state.queue[group.order]
            state.delete("queue", make_queue_key(group))


def _has_lesson(group: GroupRecord, members: tuple[Member, ...]) -> bool:
    return has_different_returns([member.reward for member in members]) if group.role == "agent" else bool(members)


def take(state: RunState, step: int, now: float) -> BatchRecord | None:
    """Return the batch of `step`, recorded or new, or None if too few sequences are trainable yet.

    Also returns None for a retired step, because only the store has its batch. Raises RefusalError if `step` is neither
    taken nor the next.
    """
    counters = state.counters
    if 1 <= step <= counters.taken_step:
        return state.batches.get(step)
    if step != counters.taken_step + 1:
        raise RefusalError(f"step {step} cannot be taken: the next is {counters.taken_step + 1}")
    if state.version == 0:
        return None
    drop_stale(state, now)
    if count_waiting(state) < state.config.learner.batch_sequences:
        return None
    batch = BatchRecord(step, state.version_at(step), now, tuple(_next_groups(state)))
    state.batches[step] = batch
    state.touch("batches", make_batch_key(step), batch)
    _count(state, batch)
    return batch


def _next_groups(state: RunState) -> list[GroupRecord]:
    """Take whole groups off the queue, in the order they became trainable, until they fill a batch."""
    chosen: list[GroupRecord] = []
    size = 0
    for group in list(state.queue.values()):
        if size >= state.config.learner.batch_sequences:
            break
        chosen.append(group)
        size += len(group.members)
        del state.queue[group.order]
        state.delete("queue", make_queue_key(group))
    return chosen


def _count(state: RunState, batch: BatchRecord) -> None:
    counters = state.counters
    members = [member for group in batch.groups for member in group.members]
    lags = [state.lag(batch.step, state.steps[member.version]) for member in members]
    counters.taken_step = batch.step
    counters.trained += len(lags)
    counters.lag_mean = sum(lags) / len(lags)
    designer = [len(group.members) for group in batch.groups if group.role == "designer"]
    counters.designer_groups += len(designer)
    counters.designer_trained += sum(designer)


def publish(state: RunState, request: Publish) -> Weights:
    """Give weights their version.

    If the same weights were published for the same step before, they keep their version. This happens if a message is
    repeated, or if a learner repeats the steps since its checkpoint. All other weights get a new version. Raises
    RefusalError for a step that was never taken.
    """
    counters = state.counters
    if not 0 <= request.step <= counters.taken_step:
        raise RefusalError(f"step {request.step} cannot be published: the last one taken is {counters.taken_step}")
    for weights in counters.recent:
        if (weights.step, weights.digest) == (request.step, request.digest):
            return weights
    weights = Weights(state.version + 1, request.step, request.digest, request.path)
    counters.newest = Publication(weights, request.metrics)
    counters.recent = [*counters.recent, weights]
    provenance.note(state, weights)
    state.touch("publications", make_version_key(weights.version), counters.newest)
    if request.step > 0:
        state.history.add(state.statistics)
        state.touch("meta", "history", state.history)
    return weights


def retire_batches(state: RunState, step: int) -> None:
    """Drop the batches up to `step` from memory, because a checkpoint of `step` is on disk.

    Raises RefusalError for a step that was never taken.
    """
    counters = state.counters
    if step > counters.taken_step:
        raise RefusalError(f"step {step} cannot retire: the last one taken is {counters.taken_step}")
    counters.retired_step = max(counters.retired_step, step)
    counters.recent = [weights for weights in counters.recent if weights.step >= counters.retired_step]
    state.batches = {step: batch for step, batch in state.batches.items() if step > counters.retired_step}
    state.touch("meta", "counters", counters)
