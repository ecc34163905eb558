"""Messages between the learner, the evaluator and the replay service."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from spade.protocol.base import MOST_CATEGORIES, MOST_RETIRED, Count, Many, Name, Request, Wire
from spade.protocol.session import Done, Weights
from spade.protocol.trajectories import Trajectory


class Group(Wire, frozen=True):
    """A whole group, as the learner consumes it."""

    id: str
    """Id of the group."""

    role: Literal["agent", "designer"]
    """Role of all its trajectories."""

    rewards: tuple[float, ...]
    """Episode returns (agent) or designer rewards (designer), one for each trajectory."""

    trajectories: tuple[Trajectory, ...]
    """Trajectories of the group."""

    baseline: float | None = None
    """The skill's running mean reward if a designer is alone in its group, else None."""

    def __post_init__(self) -> None:
        if len(self.rewards) != len(self.trajectories) or not self.rewards:
            raise ValueError(f"group {self.id}: {len(self.rewards)} rewards for {len(self.trajectories)} trajectories")


class Batch(Wire, frozen=True):
    """Whole groups of either role, in the order they became trainable."""

    step: int
    """Learner step of the batch."""

    version: int
    """Policy version at which the step is trained."""

    groups: tuple[Group, ...]
    """Groups of the batch."""

    last: bool = False
    """True if this is the last step under a limit of the run or of its command. The learner then publishes and saves a
    checkpoint."""


class NotYet(Wire, frozen=True):
    """The reply to `TakeBatch` if no batch is ready."""

    reason: str
    """The reason why no batch is ready."""


class TakeBatch(Request[Batch | NotYet], frozen=True):
    """Ask for the batch of a learner step.

    Idempotent by step: a repeated step gets its recorded groups again, in the same order. So a learner that resumes at
    step s first replays the batches after s.
    """

    step: int
    """Learner step of the batch."""

    wait_s: float
    """Seconds to wait for the batch."""


class StepMetrics(Wire, frozen=True):
    """The learner's measurements of one step. docs/metrics.md gives the definitions."""

    loss: float = 0.0
    """Loss with the designer weight."""

    loss_agent: float = 0.0
    """Loss of the agent's tokens."""

    loss_designer: float = 0.0
    """Loss of the designer's tokens, without the designer weight."""

    grad_norm: float = 0.0
    """Norm of the gradient before clipping, at the last optimiser step."""

    clip_fraction: float = 0.0
    """Share of tokens on the clipped branch of the surrogate."""

    truncated_fraction: float = 0.0
    """Share of tokens with a truncated importance weight."""

    effective_sample_share: float = 0.0
    """Kish's effective sample size of the importance weights, as a share of the tokens."""

    mismatch: float = 0.0
    """Mean absolute difference of log-probabilities between learner and sampling, in nats."""

    entropy: float = 0.0
    """Entropy of the learner's distribution, in nats."""

    agent_sequences: int = 0
    """Trajectories of agents in the batch."""

    designer_sequences: int = 0
    """Trajectories of designers in the batch."""

    designer_weight: float = 0.0
    """Factor on the designer's advantages."""

    trained_tokens: int = 0
    """Trained tokens."""

    step_s: float = 0.0
    """Seconds for the step."""

    wait_s: float = 0.0
    """Seconds of waiting for the batch."""

    skipped: int = 0
    """Optimiser steps left out because the gradient was not finite."""

    masked_fraction: float = 0.0
    """Share of tokens that the loss left out."""

    kl: float = 0.0
    """KL to the model that the run started from, in nats."""

    lr: float = 0.0
    """Learning rate."""

    tokens_by_lag: Many[int] = ()
    """Tokens by policy lag, from 0. The 16th entry holds all larger lags."""

    mismatch_by_lag: Many[float] = ()
    """`mismatch` at each of these lags."""

    computed_fraction: float = 0.0
    """Computed tokens, as a share of the tokens of the sequences. Shared beginnings count once."""

    read_tokens: int = 0
    """Tokens of all sequences of the batch. A shared beginning counts once for each sequence."""


class Published(Wire, frozen=True):
    """The weights as they were announced."""

    weights: Weights
    """The announced weights."""


class Publish(Request[Published], frozen=True):
    """Publish new weights. The replay service gives them a version, stores it and announces it."""

    step: int
    """Learner step that made the weights. 0 for the initial weights."""

    digest: str
    """Digest of the weights."""

    path: str
    """Folder of the weights on the learner's host."""

    metrics: StepMetrics
    """Measurements of the step."""


Folders = Annotated[tuple[Name, ...], Meta(max_length=MOST_RETIRED)]


class Retired(Wire, frozen=True):
    """The answer to `RetireWeights`: weights that the learner may delete."""

    digests: Folders
    """Digests of weights that no engine holds or will hold."""


class RetireWeights(Request[Retired], frozen=True):
    """Ask which weights may be deleted."""

    digests: Folders
    """Digests of weights that the learner no longer needs."""


class Checkpointed(Request[Done], frozen=True):
    """Report that a checkpoint is durable. The groups of all steps up to it may retire."""

    step: int
    """Learner step of the checkpoint."""


Categories = Annotated[dict[Name, Annotated[float, Meta(ge=0, le=1)]], Meta(max_length=MOST_CATEGORIES)]


class Evaluation(Wire, frozen=True):
    """The results of a policy on the items of `config.Evaluation`, played without a hint."""

    step: Count
    """Learner step of the policy with which the evaluation began."""

    oldest: Count
    """Oldest policy version that sampled its tokens."""

    newest: Count
    """Newest policy version that sampled its tokens."""

    plays: Annotated[int, Meta(ge=1)]
    """Number of all plays."""

    voids: Count
    """Plays that ended in an error. An error counts as a wrong answer."""

    win_rate: Annotated[float, Meta(ge=0, le=1)]
    """Mean over the items of their share of won plays."""

    error: Annotated[float, Meta(ge=0, le=1)]
    """Standard error of `win_rate` over items."""

    seconds: float
    """Duration of the evaluation."""

    suite: Annotated[str, Meta(pattern=r"^[a-z0-9-]{0,40}\Z")] = ""
    """Name of the suite, or "" for a folder of programs."""

    categories: Categories = msgspec.field(default_factory=dict)
    """Win rate of each category of the items. Empty if there are more than MOST_CATEGORIES."""

    measure: Annotated[str, Meta(pattern=r"^([0-9a-f]{32})?\Z")] = ""
    """Digest of all that decides what is played, or "" if an older version made the evaluation."""


class Evaluated(Request[Done], frozen=True):
    """Hand in a finished evaluation. If the newest one is sent again, the service ignores it.

    Refused: the figures make no sense.
    """

    evaluation: Evaluation
    """The finished evaluation."""
