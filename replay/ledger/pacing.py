"""Decide how much work may start now, and whether the run is over. Nothing else throttles a run. Pure.

Why the lag bound holds. Let B be the size of a batch. Take a chunk in flight, and the oldest weights that sampled one
of its tokens. Let v be their lag in the next batch. The chunk is within the bound L if one of the next n = L - v + 1
batches takes it. A batch takes at least B sequences in the order they became trainable. So even if all other
outstanding sequences go first, one of these batches takes the chunk while there are fewer than n * B others. Chunks
start only while all outstanding sequences are under n * B for the oldest chunk in flight. So work waits instead of
being wasted, and no chunk is left behind, however slow it is. (Designer groups that become trainable meanwhile, at most
one round's, are not foreseen. Trajectories that they push over the bound are counted as wasted.)

Besides, at most one batch and one chunk for each slot are outstanding. More would only wait and age.

Pacing cannot deadlock. A chunk that has begun counts with all its plays, and they may always be leased. If nothing is
in flight and the learner is idle, n is at least 1 and less than a batch waits. So a chunk may start.

The end of a run. A limit of learner steps ends the run in two phases. Once the last batch is taken, no more work is
given out. Once that step is published and in a checkpoint, the run is over. When any other limit is reached, no more
work is given out and the run is over. The limits of the config count from the run's beginning, the limits of a command
from the command's start. The first limit that is reached ends the run.
"""

import math
from typing import Literal

import msgspec

from replay.ledger.state import CommandLimits, RunState
from spade.config import Config, Limits

MARGIN = 8  # published versions that the lag bound of designers has in addition


class PacingFigures(msgspec.Struct, frozen=True):
    """The ledger's figures that pacing depends on."""

    newest: int | None
    """Policy lag that tokens sampled now, by the newest weights, would have in the next batch. None before the first
    publication."""
    outstanding: int
    """Sequences that batches may still take: trainable groups, and chunks in flight at full size."""
    oldest: int
    """Longest policy lag that a chunk in flight would have in the next batch. Ignores chunks over the lag bound. 0
    without a chunk."""
    active: int
    """Environments with an open window."""
    designing: int
    """Design jobs that are open or leased."""

    def __post_init__(self) -> None:
        if min(self.newest or 0, self.outstanding, self.oldest, self.active, self.designing) < 0:
            raise ValueError(f"figures of pacing must not be negative: {self}")


class Allowance(msgspec.Struct, frozen=True):
    """The amount of work that may start now."""

    chunks: int
    """Chunks of plays, each with its hinted twins if it has any."""
    designs: int
    """Design jobs."""


def compute_lag_bound(role: Literal["agent", "designer"], config: Config) -> int:
    """Return the greatest policy lag of a trajectory that may be trained, in published versions.

    Agents have `learner.agent_lag`. The bound of designers is computed from the length of a window. A design waits
    until the window of its environment closes. Meanwhile each of N environments plays k chunks: k * N * G plays in all.
    One version is published for every batch_sequences * publish_every plays, and at least one for each chunk, because
    the next chunk waits for newer weights. The bound is twice that number of versions, and 8 more. This leaves as much
    time again for the slowest window of a designer group and for the queue.
    """
    if role == "agent":
        return config.learner.agent_lag
    play, learner = config.play, config.learner
    chunk = config.design.active_environments * play.group_size / (learner.batch_sequences * learner.publish_every)
    return 2 * math.ceil(play.window_chunks * max(chunk, 1.0)) + MARGIN


def compute_allowance(load: PacingFigures, config: Config) -> Allowance:
    """Return how much work may start under these figures. No other rule limits the work."""
    if load.newest is None:
        return Allowance(0, 0)
    group, batch, slots = config.play.group_size, config.learner.batch_sequences, config.design.active_environments
    batches = max(config.learner.agent_lag - max(load.newest, load.oldest) + 1, 0)
    room = min(batches * batch, batch + slots * group) - load.outstanding
    return Allowance(chunks=max(-(-room // group), 0), designs=max(slots - load.active - load.designing, 0))


def count_rollouts(state: RunState) -> float:
    """Return the finished unhinted plays, counted in rollouts: one chunk of each of `design.active_environments`."""
    return state.counters.unhinted / _count_plays_a_rollout(state)


def _count_plays_a_rollout(state: RunState) -> int:
    return state.config.design.active_environments * state.config.play.group_size


def begin_command(state: RunState, command: str, limits: Limits, now: float) -> None:
    """Replace the limits of the last command by the limits of this command, counted from now.

    Changes nothing if the service was only started again within the same command. `now` is the run clock.
    """
    before = state.command
    if before is not None and before.command == command:
        return
    if limits != Limits():
        state.command = CommandLimits(command, limits, now, state.counters.unhinted)
        state.touch("meta", "command", state.command)
    elif before is not None:
        state.command = None
        state.delete("meta", "command")


def note_first_step(state: RunState, step: int) -> None:
    """Note the first step that the learner asks for under this command. The command's steps count from it."""
    command = state.command
    if command is not None and command.begun_step is None and 1 <= step <= state.counters.taken_step + 1:
        command.begun_step = step - 1
        state.touch("meta", "command", command)


def find_last_step(state: RunState) -> float:
    """Return the last learner step under the limits of the run and of the command; infinity without a limit."""
    last = float(state.config.limits.steps or math.inf)
    command = state.command
    if command is not None and command.limits.steps and command.begun_step is not None:
        last = min(last, command.begun_step + command.limits.steps)
    return last


def is_spent(state: RunState, now: float) -> bool:
    """Return True if no more work may be given out. `now` is the run clock."""
    return state.counters.taken_step >= find_last_step(state) or bool(describe_reached(state, now))


def describe_reached(state: RunState, now: float) -> str:
    """Name the limit that ended the run or the command; "" while the run goes on. `now` is the run clock."""
    limits = state.config.limits
    done = _count_finished_steps(state)
    if limits.steps and done >= limits.steps:
        return f"{done} learner steps were made (limits.steps = {limits.steps})"
    if limits.rollouts and count_rollouts(state) >= limits.rollouts:
        return f"{int(count_rollouts(state))} rollouts were played (limits.rollouts = {limits.rollouts})"
    if limits.seconds and now >= limits.seconds:
        return f"it was up for {now:.0f} s (limits.seconds = {limits.seconds:g})"
    return "" if state.command is None else _describe_command_reached(state, state.command, now)


def _describe_command_reached(state: RunState, command: CommandLimits, now: float) -> str:
    limits = command.limits
    if limits.steps and command.begun_step is not None:
        done = _count_finished_steps(state) - command.begun_step
        if done >= limits.steps:
            return f"its last start made {done} learner steps (--steps {limits.steps})"
    played = (state.counters.unhinted - command.begun_unhinted) / _count_plays_a_rollout(state)
    if limits.rollouts and played >= limits.rollouts:
        return f"its last start played {int(played)} rollouts (--rollouts {limits.rollouts})"
    if limits.seconds and (up := now - command.begun_s) >= limits.seconds:
        return f"its last start was up for {up:.0f} s (--for {limits.seconds:g})"
    return ""


def _count_finished_steps(state: RunState) -> int:
    """Return the last step that is both published and in a checkpoint."""
    return min(state.published_step, state.counters.retired_step)
