"""DeepSpeed's engine around a model: the device of a rank, and DeepSpeed's settings."""

import importlib.util
import logging
import os
from typing import Any

import torch
from torch.nn import Module
from torch.optim import Optimizer

from spade.config import Config
from spade.errors import ConfigError
from spade.extras import installing
from spade.policy.model import pick_device


def prepare(config: Config) -> None:
    """Make this process a rank, before anything imports DeepSpeed (Transformers does if it is installed).

    Raises ConfigError if DeepSpeed or the GPU is missing.
    """
    if importlib.util.find_spec("deepspeed") is None:
        raise ConfigError(f"learner.backend: needs the package deepspeed; {installing('deepspeed')}")
    os.environ |= {"LOCAL_RANK": "0", "DS_ACCELERATOR": device_of(config).type}  # it sees no other rank's GPU


def device_of(config: Config) -> torch.device:
    """The CPU, or the first GPU that this process sees. Raises ConfigError for another one."""
    device = config.learner.device
    if pick_device(device).type == "cpu":
        return torch.device("cpu")
    if device not in ("auto", "cuda"):
        raise ConfigError(f"learner.device: {device!r}; with deepspeed use 'auto', and learner.gpus for a choice")
    return torch.device("cuda", 0)


def dtype(config: Config) -> str:
    """The dtype of the parameters in a forward pass. For bfloat16 the sharding stages give AdamW float32 copies."""
    return "bfloat16" if config.model.dtype == "bfloat16" and config.learner.zero_stage > 0 else "float32"


def engine_of(scorer: Module, optimizer: Optimizer, config: Config) -> Any:
    """Give model and optimiser to DeepSpeed, once all ranks have met, and return its engine."""
    import deepspeed

    # DeepSpeed would compile a shared-memory transport for minutes; gloo is enough.
    importlib.import_module("deepspeed.comm.torch").build_shm_op = lambda: None  # type: ignore[attr-defined]
    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    deepspeed.init_distributed()
    engine, *_ = deepspeed.initialize(model=scorer, optimizer=optimizer, config=settings(config))
    return engine


def settings(config: Config) -> dict[str, Any]:
    """DeepSpeed's own settings. Batches are cut here: each micro-batch says if it is the last one."""
    learner = config.learner
    stage, low = learner.zero_stage, dtype(config) == "bfloat16"
    zero: dict[str, Any] = {"stage": stage}
    if learner.offload != "none":
        zero["offload_optimizer"] = {"device": "cpu"}
    if learner.offload == "all":
        zero["offload_param"] = {"device": "cpu"}
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_clipping": learner.max_grad_norm if stage else 0.0,
        "zero_optimization": zero,
        "zero_force_ds_cpu_optimizer": False,
        # For gradients over micro-batches: the default, bfloat16, loses small ones. Stage 1 would change optimisers.
        "data_types": {"grad_accum_dtype": "fp32" if low and stage > 1 else None},
        "bf16": {"enabled": low, "check_grad_overflow": low},
    }
