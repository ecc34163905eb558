"""Choose the device of a rank, make DeepSpeed's settings, and wrap a model in DeepSpeed's engine."""

import importlib.util
import logging
import os
from typing import Any

import torch
from torch.nn import Module
from torch.optim import Optimizer

from spade.config import Config
from spade.errors import ConfigError
from spade.extras import describe_installing
from spade.policy.model import pick_device


def prepare(config: Config) -> None:
    """Set up this process as a rank. Call this before DeepSpeed is imported (Transformers imports it if installed).

    Raises ConfigError if DeepSpeed or the GPU is missing.
    """
    if importlib.util.find_spec("deepspeed") is None:
        raise ConfigError(f"learner.backend: needs the package deepspeed; {describe_installing('deepspeed')}")
    # A rank sees only its own GPU, so the index is 0.
    os.environ |= {"LOCAL_RANK": "0", "DS_ACCELERATOR": find_device(config).type}


def find_device(config: Config) -> torch.device:
    """Return the CPU or the first visible GPU. Raises ConfigError if `learner.device` names another device."""
    device = config.learner.device
    if pick_device(device).type == "cpu":
        return torch.device("cpu")
    if device not in ("auto", "cuda"):
        raise ConfigError(
            f"learner.device: must be 'auto' or 'cpu' with deepspeed, is {device!r}; learner.gpus chooses the GPUs"
        )
    return torch.device("cuda", 0)


def choose_dtype(config: Config) -> str:
    """Return the dtype of the parameters in a forward pass. If it is bfloat16, AdamW updates float32 copies."""
    return "bfloat16" if config.model.dtype == "bfloat16" and config.learner.zero_stage > 0 else "float32"


def make_engine(scorer: Module, optimizer: Optimizer, config: Config) -> Any:
    """Wrap model and optimiser in DeepSpeed's engine. All ranks must have joined the process group before."""
    import deepspeed

    # Do not let DeepSpeed compile a shared-memory transport, which takes minutes. Gloo is enough.
    importlib.import_module("deepspeed.comm.torch").build_shm_op = lambda: None  # type: ignore[attr-defined]
    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    deepspeed.init_distributed()
    engine, *_ = deepspeed.initialize(model=scorer, optimizer=optimizer, config=make_settings(config))
    return engine


def make_settings(config: Config) -> dict[str, Any]:
    """Return DeepSpeed's settings. The learner cuts the batches itself, and tells DeepSpeed the last micro-batch."""
    learner = config.learner
    stage, low = learner.zero_stage, choose_dtype(config) == "bfloat16"
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
        # The default, bfloat16, loses small gradients over micro-batches. At stage 1 fp32 would change the optimiser.
        "data_types": {"grad_accum_dtype": "fp32" if low and stage > 1 else None},
        "bf16": {"enabled": low, "check_grad_overflow": low},
    }
