"""Settings of the loss, the optimisation and the learner's processes."""

from typing import Literal

from spade.config.sections.bounds import (
    Count,
    CountOrZero,
    Fraction,
    Gpu,
    Positive,
    PositiveOrZero,
    Seconds,
    Section,
)


class Loss(Section, frozen=True):
    """The loss of a token. docs/learner.md has the formula of each `kind`, its source and its use."""

    kind: Literal["tis", "icepop", "sequence_tis", "cispo", "gspo"] = "tis"
    """The formula. The default is the paper's: a clipped surrogate with a truncated importance weight."""

    aggregation: Literal["token", "sequence"] = "token"
    """The mean that gives the loss: "token" over all trained tokens, "sequence" over the tokens of each trajectory and
    then over the trajectories."""

    cap: Positive = 2.0
    """Greatest importance weight of a token (of a sequence for "sequence_tis"). Greater weights are truncated to it."""

    clip_low: Fraction = 0.20
    """Distance below 1 at which the ratio of policies is clipped. The default is the paper's, as in DAPO
    (arXiv:2503.14476)."""

    clip_high: Positive = 0.28
    """Distance above 1 at which the ratio of policies is clipped. The default is the paper's, as in DAPO."""

    kl: PositiveOrZero = 0.0
    """Weight of the KL to the model that the run started from. The default is the paper's (0.005 for Qwen3-8B); at 0
    that model is not loaded."""


class Learner(Section, frozen=True):
    """Optimisation, batches, checkpoints and the learner's processes (docs/learner.md)."""

    backend: Literal["torch", "deepspeed"] = "torch"
    """Implementation of a step: "torch" is one process on one device, "deepspeed" shards the model over `processes`."""

    processes: Count = 1
    """Processes (ranks) of the backend "deepspeed", a GPU each; with --cluster they may be on several machines."""

    zero_stage: Literal[0, 1, 2, 3] = 2
    """State that "deepspeed" shards over its processes: 0 nothing, 1 the optimiser's state, 2 gradients too, 3
    parameters too (ZeRO, arXiv:1910.02054)."""

    offload: Literal["none", "optimizer", "all"] = "none"
    """State that "deepspeed" keeps in the CPU's memory: "optimizer" the optimiser's state (stage 1 or more), "all" the
    parameters too (stage 3)."""

    lora_rank: CountOrZero = 0
    """Rank of the adapter that is trained instead of the model (LoRA, arXiv:2106.09685). Published weights have the
    adapter merged into the model. 0 trains all parameters."""

    lora_alpha: Positive = 32.0
    """Scale of the adapter, which is multiplied by `lora_alpha` / `lora_rank`."""

    device: str = "auto"
    """Device of the learner as torch names it: `cpu`, `cuda`, `cuda:1`; "auto" is the GPU if there is one."""

    gpus: tuple[Gpu, ...] = ()
    """GPUs of the learner, one for each of its processes. Without a list, the processes take the visible GPUs in
    turn."""

    threads: CountOrZero = 0
    """CPU threads of torch in each process; 0 leaves the number to torch."""

    lr: Positive = 1e-6
    """Learning rate of AdamW after the warm-up. The default is the paper's."""

    schedule: Literal["constant", "cosine"] = "constant"
    """Learning rate after the warm-up: constant, as in the paper, or along half a cosine to `lr_min`."""

    warmup_steps: CountOrZero = 0
    """Learner steps over which the learning rate rises evenly to `lr`."""

    schedule_steps: Count = 400
    """Learner step at which the cosine schedule ends. The default is the paper's number of rollouts."""

    lr_min: PositiveOrZero = 0.0
    """Learning rate at the end of the cosine schedule, at most `lr`."""

    weight_decay: PositiveOrZero = 0.1
    """AdamW's weight decay of matrices. Vectors do not decay. The default is the paper's."""

    max_grad_norm: Positive = 1.0
    """Norm to which a gradient is clipped."""

    batch_sequences: Count = 192
    """Number of trajectories of a learner step. Whole groups are added until the batch has at least this number. The
    default is the paper's."""

    microbatch_tokens: Count = 65_536
    """Largest number of tokens of a micro-batch. It packs whole sequences, and a longer sequence goes alone. A prefix
    that sequences share counts in full for the first of them, and as an eighth for each further one. This setting
    bounds the memory for activations. It changes no result beyond rounding."""

    steps_per_batch: Count = 1
    """Optimiser steps on each batch. With one step, the ratio of "tis" is 1 and is never clipped."""

    publish_every: Count = 1
    """Learner steps between two publications of weights."""

    checkpoint_every: Count = 10
    """Learner steps between two checkpoints, and so the most that a killed learner computes again."""

    checkpoint: Literal["whole", "sharded"] = "whole"
    """Form of a checkpoint's state: "whole" is gathered and written by the first process. "sharded" is written by each
    process of "deepspeed", for an optimiser's state too large for one machine's memory (docs/scale.md). Any backend
    resumes from either."""

    keep_checkpoints: Count = 2
    """Number of newest checkpoints that stay on the disk."""

    keep_policy_every: CountOrZero = 0
    """Learner steps between two policies that are kept until the end of the run, for `spade eval --policy every:N`.
    They are kept without the optimiser's state (docs/durability.md, "Kept policies"). 0 keeps none."""

    agent_lag: CountOrZero = 4
    """Greatest age of a play's weights, in published versions, when the play is trained. An older play is not trained.
    0 makes a run synchronous."""

    designer_weight_max: Positive = 32.0
    """Greatest factor on the advantages of designs. A batch has few designs, so their advantages are multiplied."""

    group_deadline_s: Seconds = 28_800.0
    """Seconds that a group may wait for its batch. After that it is never trained. The default is chosen by simulation
    (docs/learner.md, "Policy lag")."""

    activation_checkpointing: bool = True
    """True keeps only each layer's input and computes the other activations again for the gradient. This takes less
    memory and more time."""
