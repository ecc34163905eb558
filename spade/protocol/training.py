"""The learner, the evaluator and the replay service."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from spade.protocol.base import MOST_CATEGORIES, MOST_RETIRED, Count, Many, Name, Request, Wire
from spade.protocol.session import Done, Weights
from spade.protocol.trajectories import Trajectory


class Group(Wire, frozen=True):
    """A whole group as the learner consumes it.

    `rewards` are episode returns (agent) or designer rewards (designer), one for each trajectory; `baseline` is the
    skill's running mean where a designer stands alone in its group, else None.
    """

    id: str
    role: Literal["agent", "designer"]
    rewards: tuple[float, ...]
    trajectories: tuple[Trajectory, ...]
    baseline: float | None = None

    def __post_init__(self) -> None:
        if len(self.rewards) != len(self.trajectories) or not self.rewards:
            raise ValueError(f"group {self.id}: {len(self.rewards)} rewards for {len(self.trajectories)} trajectories")


class Batch(Wire, frozen=True):
    """Whole groups of either role, in the order they became trainable. `version` is the one the step is trained at."""

    step: int
    version: int
    groups: tuple[Group, ...]


class NotYet(Wire, frozen=True):
    """No batch yet; `reason` names the missing condition."""

    reason: str


class TakeBatch(Request[Batch | NotYet], frozen=True):
    """Ask for the batch of learner step `step`, waiting up to `wait_s` for it.

    Idempotent by step: a step that was taken before gets the recorded groups again, in the same order; so a learner
    that resumes at step s replays the batches after s and then goes on.
    """

    step: int
    wait_s: float


class StepMetrics(Wire, frozen=True):
    """The learner's measurements of one step; names as in `docs/metrics.md`."""

    loss: float = 0.0
    loss_agent: float = 0.0
    loss_designer: float = 0.0
    grad_norm: float = 0.0
    clip_fraction: float = 0.0
    truncated_fraction: float = 0.0
    effective_sample_share: float = 0.0
    mismatch: float = 0.0
    entropy: float = 0.0
    agent_sequences: int = 0
    designer_sequences: int = 0
    designer_weight: float = 0.0
    trained_tokens: int = 0
    step_s: float = 0.0
    wait_s: float = 0.0
    skipped: int = 0
    masked_fraction: float = 0.0
    kl: float = 0.0
    lr: float = 0.0
    tokens_by_lag: Many[int] = ()
    mismatch_by_lag: Many[float] = ()
    computed_fraction: float = 0.0


class Published(Wire, frozen=True):
    """The weights as announced."""

    weights: Weights


class Publish(Request[Published], frozen=True):
    """New weights after `step` (0: the initial ones). The version is drawn, persisted, announced."""

    step: int
    digest: str
    path: str
    metrics: StepMetrics


Folders = Annotated[tuple[Name, ...], Meta(max_length=MOST_RETIRED)]


class Retired(Wire, frozen=True):
    """The weights that no engine holds, or will hold: their folders may be deleted."""

    digests: Folders


class RetireWeights(Request[Retired], frozen=True):
    """Ask which of these weights, which the learner needs no more, may be deleted."""

    digests: Folders


class Checkpointed(Request[Done], frozen=True):
    """A checkpoint of `step` is durable: the groups of steps up to it may retire."""

    step: int


Categories = Annotated[dict[Name, Annotated[float, Meta(ge=0, le=1)]], Meta(max_length=MOST_CATEGORIES)]


class Evaluation(Wire, frozen=True):
    """Results of the policy on the fixed set of `config.Evaluation`, without a hint.

    step      learner step of the policy it began with; oldest, newest: the policy versions that sampled its tokens
    plays     all; `voids` are those of them that ended in an error, which is a wrong answer
    win_rate  the mean over items of the share of its plays that were won; `error`: its standard error over items
    seconds   duration
    suite     its name; "" of a folder of programs
    categories  win rate of each category of the items; empty where they have more than MOST_CATEGORIES
    """

    step: Count
    oldest: Count
    newest: Count
    plays: Annotated[int, Meta(ge=1)]
    voids: Count
    win_rate: Annotated[float, Meta(ge=0, le=1)]
    error: Annotated[float, Meta(ge=0, le=1)]
    seconds: float
    suite: Annotated[str, Meta(pattern=r"^[a-z0-9-]{0,40}\Z")] = ""
    categories: Categories = msgspec.field(default_factory=dict)


class Evaluated(Request[Done], frozen=True):
    """An evaluation is over. A repeated newest evaluation is not taken again. Refused: its figures make no sense."""

    evaluation: Evaluation
