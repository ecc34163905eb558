"""Messages between the learner, the evaluator and the replay service."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from spade.protocol.base import MOST_CATEGORIES, MOST_RETIRED, Count, Many, Name, Request, Wire
from spade.protocol.session import Done, Weights
from spade.protocol.trajectories import Trajectory


class Group(Wire, frozen=True):
    """A group with all its trajectories and rewards, as the learner trains on it."""

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
    """True if a limit of the run or of its command ends the training after this step. The learner then publishes and
    saves a checkpoint."""


class NotYet(Wire, frozen=True):
    """The reply to `TakeBatch` if no batch is ready."""

    reason: str
    """The reason why no batch is ready."""


class TakeBatch(Request[Batch | NotYet], frozen=True):
    """Ask for the batch of a learner step.

    Idempotent by step: if a step is asked for again, the reply has the same groups in the same order. A learner that
    resumes from a checkpoint of step s therefore trains on the same batches after s as before.
    """

    step: int
    """Learner step of the batch."""

    wait_s: float
    """Seconds to wait for the batch."""


class StepMetrics(Wire, frozen=True):
    """The learner's measurements of one step. docs/metrics.md gives the definitions."""

    loss: float = 0.0
    """Loss whose gradient was taken. The designer's tokens count with the designer weight."""

    loss_agent: float = 0.0
    """Loss of the agent's tokens."""

    loss_designer: float = 0.0
    """Loss of the designer's tokens, without the designer weight."""

    grad_norm: float = 0.0
    """Norm of the gradient before clipping, at the last optimiser step."""

    clip_fraction: float = 0.0
    """Share of tokens on the clipped branch of the surrogate."""

    truncated_fraction: float = 0.0
    """Share of tokens whose importance weight was truncated."""

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
    """Duration of the step in seconds."""

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
    """`mismatch` at each lag of `tokens_by_lag`."""

    computed_fraction: float = 0.0
    """Tokens that the learner computed, divided by `read_tokens`. Beginnings that sequences share are computed once."""

    read_tokens: int = 0
    """Tokens of all sequences of the batch. A shared beginning counts once for each sequence."""


class Published(Wire, frozen=True):
    """The reply to `Publish`: the weights with their new policy version."""

    weights: Weights
    """The published weights."""


class Publish(Request[Published], frozen=True):
    """Publish new weights. The replay service stores a policy version for them and announces both to its peers."""

    step: int
    """Learner step that made the weights. 0 for the initial weights."""

    digest: str
    """Digest of the weights."""

    path: str
    """Folder of the weights on the learner's host."""

    metrics: StepMetrics
    """Measurements of the step."""


Digests = Annotated[tuple[Name, ...], Meta(max_length=MOST_RETIRED)]


class Retired(Wire, frozen=True):
    """The answer to `RetireWeights`: weights that the learner may delete."""

    digests: Digests
    """Digests of weights that no engine holds or will hold."""


class RetireWeights(Request[Retired], frozen=True):
    """Ask which weights may be deleted."""

    digests: Digests
    """Digests of weights that the learner no longer needs."""


class Checkpointed(Request[Done], frozen=True):
    """Report that a checkpoint is durable. The replay service may then forget the batches up to its step."""

    step: int
    """Learner step of the checkpoint."""


Categories = Annotated[dict[Name, Annotated[float, Meta(ge=0, le=1)]], Meta(max_length=MOST_CATEGORIES)]


class Evaluation(Wire, frozen=True):
    """The results of a policy on the items of `evaluation.suite`, played without a hint."""

    step: Count
    """Learner step of the policy with which the evaluation began."""

    oldest: Count
    """Oldest policy version that sampled tokens of the evaluation."""

    newest: Count
    """Newest policy version that sampled tokens of the evaluation."""

    plays: Annotated[int, Meta(ge=1)]
    """Number of all plays."""

    voids: Count
    """Plays that ended in an error. An error counts as a wrong answer."""

    win_rate: Annotated[float, Meta(ge=0, le=1)]
    """Share of won plays of an item, averaged over the items."""

    error: Annotated[float, Meta(ge=0, le=1)]
    """Standard error of `win_rate` over items."""

    seconds: float
    """Duration of the evaluation."""

    suite: Annotated[str, Meta(pattern=r"^[a-z0-9-]{0,40}\Z")] = ""
    """Name of the suite, or "" for a folder of programs."""

    categories: Categories = msgspec.field(default_factory=dict)
    """Win rate of each category of the items. Empty if there are more than MOST_CATEGORIES."""

    measure: Annotated[str, Meta(pattern=r"^([0-9a-f]{32})?\Z")] = ""
    """Digest of everything that decides what is played, or "" if an older version of SPADE made the evaluation."""


class Evaluated(Request[Done], frozen=True):
    """Hand in a finished evaluation. The service ignores a repetition of the newest evaluation.

    The reply is `Refused` if the figures are impossible.
    """

    evaluation: Evaluation
    """The finished evaluation."""
