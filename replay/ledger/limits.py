"""The end of a run: the limits of its length, and which of them is reached. Pure.

A limit of learner steps ends a run in two parts: with the last batch taken no more work is given out, and when that
step is published and in a checkpoint the run is over. The other limits end both at once.
"""

from replay.ledger.state import RunState


def rollouts(state: RunState) -> float:
    """Finished unhinted plays in units of a rollout: a chunk of each of `design.active_environments`."""
    config = state.config
    return state.counters.unhinted / (config.design.active_environments * config.play.group_size)


def spent(state: RunState, now: float) -> bool:
    """True if no more work may be given out. `now` is the run clock."""
    steps = state.config.limits.steps
    return bool(steps and state.counters.taken_step >= steps) or bool(reached(state, now))


def reached(state: RunState, now: float) -> str:
    """The limit that has ended the run, in words; "" while it goes on. `now` is the run clock."""
    limits = state.config.limits
    done = min(state.published_step, state.counters.retired_step)
    if limits.steps and done >= limits.steps:
        return f"{done} learner steps were made (limits.steps = {limits.steps})"
    if limits.rollouts and rollouts(state) >= limits.rollouts:
        return f"{int(rollouts(state))} rollouts were played (limits.rollouts = {limits.rollouts})"
    if limits.seconds and now >= limits.seconds:
        return f"it was up for {now:.0f} s (limits.seconds = {limits.seconds:g})"
    return ""
