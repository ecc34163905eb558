"""Checks of messages, which may come from broken or hostile senders. Each returns an error, or "" if all is well. Pure.

An impossible figure would crash the service when it is added up. A trajectory that no model can have sampled would
crash the learner, and crash it again at every resume.
"""

import math
from collections.abc import Sequence

import numpy as np

from replay.ledger.records import Job
from spade.codec import unpack_floats, unpack_ids, unpack_mask
from spade.config import DOMAINS, Config, Play
from spade.protocol import MOST_HINT, Audited, Diversity, EndedPlay, RejectCandidate, SubmitEnvironment, Trajectory

MOST_STEPS, LONGEST_S = 2**32, 1e9  # bounds of the numbers in an audit's report, so that their sums fit into a record


def check_plays(plays: Sequence[EndedPlay], settings: Play) -> list[str]:
    """Check submitted plays. Returns one text for each play: its error, or "".

    Checks the numbers of all trajectories at once, because numpy takes as long for one as for a hundred. Only if a
    number is wrong, checks each trajectory by itself.
    """
    trajectories = [play.trajectory for play in plays if play.trajectory is not None and play.trajectory.sampled]
    ids = b"".join([each.ids for each in trajectories])
    sound = not _check_numbers(ids, b"".join([each.logprobs for each in trajectories]))
    return [_check_play(play, settings, sound) for play in plays]


def _check_play(play: EndedPlay, settings: Play, sound: bool) -> str:
    """Check a submitted play. If `sound`, the numbers of its trajectory were checked before."""
    if not all(map(math.isfinite, (play.episode_return, play.seconds, *play.rewards))):
        return "return, rewards and seconds must be finite"
    if not -1 <= play.episode_return <= 1:
        return f"the return {play.episode_return} is outside [-1, 1]"
    if play.refused > play.calls or not play.free <= play.done <= play.instructions:
        return "it has more refused calls than calls, more instructions done than given, or free ones that are not done"
    if (play.trajectory is None) != (play.outcome == "fault"):
        return "a play needs a trajectory, unless its outcome is a fault: then it must have none"
    if play.trajectory is None:
        return ""
    return _check_trajectory(play.trajectory, sound) or _check_sequences(play.trajectory, settings)


def check_design(design: SubmitEnvironment | RejectCandidate, job: Job | None, config: Config) -> str:
    """Check an attempt at a job. `job` is None if the job is closed."""
    attempts, variants = config.design.attempts, DOMAINS[config.run.domain].variants
    if job is not None and not 1 <= design.lease <= job.lease:
        return f"its lease {design.lease} was never given"
    if not 1 <= design.attempt <= attempts:
        return f"attempt {design.attempt} is not one of 1 to {attempts}"
    if design.variant not in ("", *variants):
        return f"variant {design.variant!r} is not a variant of run.domain = {config.run.domain!r}"
    if job is not None and (design.trajectory is None) != bool(job.program):
        return "a design must have a trajectory, and a program of a pool must have none"
    if isinstance(design, SubmitEnvironment) and len(design.hint) > MOST_HINT:
        return f"a hint has at most {MOST_HINT} characters"
    if design.trajectory is None:
        return ""
    if design.trajectory.rewinds:
        return "a design is one sequence, without rewinds"
    return _check_trajectory(design.trajectory)


def check_audit(audited: Audited) -> str:
    """Check the outcome of an audit."""
    if not 0 <= audited.seconds <= LONGEST_S:
        return f"its seconds must be finite, 0 to {LONGEST_S:g}"
    if audited.solved > audited.tried:
        return "its solution won more plays than were tried"
    return "" if audited.steps <= MOST_STEPS else f"its steps must be at most {MOST_STEPS}"


def check_diversity(diversity: Diversity, published_step: int) -> str:
    """Check a measured diversity."""
    if diversity.step > published_step:
        return "nothing was published after that step"
    return "" if 0 <= diversity.seconds <= LONGEST_S else f"its seconds must be finite, 0 to {LONGEST_S:g}"


def _check_trajectory(trajectory: Trajectory, sound: bool = False) -> str:
    # Without a sampled token there is nothing to train and nothing to check.
    if not trajectory.sampled:
        return ""
    if not trajectory.spans[0]:
        return "a trajectory must begin with tokens that the model read"
    return "" if sound else _check_numbers(trajectory.ids, trajectory.logprobs)


def _check_numbers(ids: bytes, logprobs: bytes) -> str:
    if ids and unpack_ids(ids).min() < 0:
        return "a token is negative"
    return "" if np.isfinite(unpack_floats(logprobs)).all() else "a log-probability is not finite"


def _check_sequences(trajectory: Trajectory, settings: Play) -> str:
    # Without these bounds a few bytes could expand to any number of tokens to train on.
    contexts = trajectory.contexts
    if len(contexts) > settings.max_turns:
        return f"it has {len(contexts)} sequences, over play.max_turns = {settings.max_turns}"
    if max(contexts) > settings.context_tokens:
        return f"a sequence has {max(contexts)} tokens, over play.context_tokens = {settings.context_tokens}"
    if trajectory.rewinds and unpack_mask(trajectory)[[at for at, _ in trajectory.rewinds]].any():
        return "a rewind must come before a token that the model read, not one that it sampled"
    return ""
