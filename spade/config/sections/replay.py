"""Settings of the replay service: the designer's reward, the audit of environments, and the store."""

from typing import Literal

from spade.config.sections.bounds import (
    BytesOrZero,
    CountOrZero,
    Positive,
    PositiveOrZero,
    Seconds,
    SecondsOrZero,
    Section,
    Share,
    ShareAboveZero,
)


class Reward(Section, frozen=True):
    """The designer's reward (docs/designing.md, "The designer's reward"). A resume with other values is refused."""

    kind: Literal["regret", "progress", "finding", "learning_potential", "win_rate", "calibrated_novelty"] = "regret"
    """The formula. "regret", the paper's, pays regret_weight * clip(regret / regret_scale) + anchor_weight * anchor(win
    rate). "progress" replaces the anchor by the change of the win rate over the chunks of the window. "finding" pays
    like "regret", but only as far as plays show that players can find out what the hint says.
    "learning_potential" pays the distance of the mean unhinted return from the skill's slow average. "win_rate" pays
    only the anchor, at weight 1. "calibrated_novelty" pays the anchor + 0.2 * (1 - similarity) if some plays were won
    and some were not."""

    regret_scale: Positive = 0.15
    """The regret is divided by this number and clipped to [0, 1], so a regret of this size pays in full. Under
    "progress" the change of the win rate is divided by it as well. The default is the paper's."""

    regret_weight: PositiveOrZero = 0.4
    """Weight of the normalised regret. The default is the paper's."""

    anchor_weight: PositiveOrZero = 0.6
    """Weight of the difficulty anchor. The default is the paper's."""

    anchor_low: Share = 0.4
    """Least win rate at which the anchor is 1. The default is the paper's (later 0.2 at 4B)."""

    anchor_high: ShareAboveZero = 0.6
    """Greatest win rate at which the anchor is 1. The default is the paper's (later 0.4 at 4B)."""

    anchor_ramp: Positive = 0.25
    """Distance in win rate over which the anchor falls to 0 on each side. The default is the paper's."""

    shrink: bool = False
    """True shrinks the regret towards 0 by its standard error (positive-part James-Stein), before it is divided."""

    slow: ShareAboveZero = 0.05
    """Weight of the newest window in the running average of its skill's mean unhinted returns. "learning_potential"
    compares a window with this average. At the default, about the last twenty windows determine the average."""


class Audit(Section, frozen=True):
    """The audit of a window before its designer is paid (docs/sandbox.md, "Audit").

    If `replays` and `random_plays` are 0, no window is audited.
    """

    replays: CountOrZero = 2
    """Number of recorded plays of each arm that are run again. Each action must get the same answer as before."""

    random_plays: CountOrZero = 16
    """Number of plays with random actions, on instances that the agent won."""

    solutions: CountOrZero = 4
    """Number of instances that nobody won, on which the actions of `solution()` are played. If `solution()` loses half
    of them, for example, half of all losses on instances that nobody won count as void in the reward."""


class Replay(Section, frozen=True):
    """The replay service: the store, how long it keeps trajectories, and when it reports a stall."""

    store: str = ""
    """Folder of the store. If machines share the run's directory over a network, name a folder on a local or block
    volume. The directory then has a link to it. "" keeps the store in the directory. Two runs cannot share a folder."""

    network_store: bool = False
    """True lets the store lie on a network file system, which LMDB does not support."""

    durability: Literal["sync", "nosync"] = "sync"
    """Durability of acknowledged work: "sync" flushes every commit to the disk. With "nosync" a commit survives the
    death of the process, but perhaps not of the machine."""

    stall_s: Seconds = 600.0
    """Seconds without a learner step or a finished play after which a run counts as stalled. The log then says once
    which process waits for which."""

    retain_s: SecondsOrZero = 0.0
    """Seconds after which the trajectories of a taken batch are deleted, unless a resume needs them. 0 keeps all."""

    retain_bytes: BytesOrZero = 0
    """Largest size of all trajectories in bytes. If they are larger, the oldest trained trajectories are deleted,
    unless a resume needs them. 0 keeps all."""
