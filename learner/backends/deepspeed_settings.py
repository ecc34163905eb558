"""DeepSpeed's engine around a model: the device of each rank, the meeting of the ranks, DeepSpeed's settings.

Collectives go over NCCL on GPUs and over gloo on CPUs; all ranks are on this machine.
"""

import importlib.util
import logging
import os
from datetime import timedelta
from typing import Any

import torch
from torch import distributed
from torch.nn import Module
from torch.optim import Optimizer

from spade.config import Config
from spade.errors import ConfigError
from spade.policy.model import pick_device

COLLECTIVE = timedelta(minutes=30)  # for one collective, a slow rank's micro-batch included


def prepare(rank: int, config: Config) -> None:
    """Make this process rank `rank`, before anything imports DeepSpeed (Transformers does if it is installed).

    Raises ConfigError if DeepSpeed or GPUs are missing.
    """
    if importlib.util.find_spec("deepspeed") is None:
        raise ConfigError("learner.backend: needs the package deepspeed; `pip install spade-rl[deepspeed]`")
    device = device_of(rank, config)
    os.environ |= {"LOCAL_RANK": str(rank), "DS_ACCELERATOR": device.type, "GLOO_SOCKET_IFNAME": "lo"}


def device_of(rank: int, config: Config) -> torch.device:
    """The CPU, or the GPU of that number. Raises ConfigError if there are too few."""
    device, ranks = config.learner.device, config.learner.processes
    if pick_device(device).type == "cpu":
        return torch.device("cpu")
    if device not in ("auto", "cuda") or ranks > torch.cuda.device_count():
        raise ConfigError(
            f"learner.processes: {ranks} on learner.device = {device!r}; rank N takes GPU N of the "
            f"{torch.cuda.device_count()} here, so use 'auto' and at most as many processes"
        )
    return torch.device("cuda", rank)


def dtype(config: Config) -> str:
    """The dtype of the parameters in a forward pass. For bfloat16 the sharding stages give AdamW float32 copies."""
    return "bfloat16" if config.model.dtype == "bfloat16" and config.learner.zero_stage > 0 else "float32"


def join(scorer: Module, optimizer: Optimizer, config: Config, rank: int, meeting: str) -> Any:
    """Meet the other ranks at the file `meeting`, give model and optimiser to DeepSpeed, and return its engine."""
    import deepspeed

    ranks, device = config.learner.processes, device_of(rank, config)
    # DeepSpeed would compile a shared-memory transport for minutes; gloo is enough.
    importlib.import_module("deepspeed.comm.torch").build_shm_op = lambda: None  # type: ignore[attr-defined]
    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    distributed.init_process_group(
        "gloo" if device.type == "cpu" else "nccl",
        store=distributed.FileStore(meeting, ranks),  # type: ignore[attr-defined]
        rank=rank,
        world_size=ranks,
        timeout=COLLECTIVE,
    )
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
