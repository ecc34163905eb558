"""A run that only samples: engines on one pinned policy, without learner and designers."""

import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from shutil import rmtree

from spade.app.evaluation.policies import PinnedPolicy
from spade.app.rundir import RunDir
from spade.app.supervisor import launches
from spade.config import Config, compute_digest, load
from spade.errors import ConfigError
from spade.protocol import PROTOCOL_VERSION, Hello, StepMetrics
from spade.transport import connect


def derive_pinned_settings(
    base: str, overrides: Sequence[str], model: Path, dtype: str, context_tokens: int, others: Mapping[str, object]
) -> Config:
    """Derive the config of processes that only sample. `base`, a run or recipe, gives the settings for sampling.

    `others` are further settings. Raises ConfigError if a setting is invalid.
    """
    given = load(base)
    own = {
        "model.path": str(model),
        "model.dtype": dtype,
        # Nothing is designed, trained or played for the store, so these settings take the smallest valid values.
        "design.source": "model",
        "design.max_tokens": 1,
        "design.round_jobs": given.design.active_skills,
        "pool.source": "",
        "pool.difficulty": "fixed",
        "pool.reward": "win",
        "endpoint.url": "",
        "actors.designers": 0,
        "actors.agents": 0,
        "learner.batch_sequences": 2,
        "learner.gpus": [],
        "play.group_size": 2,
        "play.max_turn_tokens": 1,
        "play.context_tokens": context_tokens,
        "engine.context_tokens": context_tokens,
        "evaluation.suite": "",
        "evaluation.diversity_programs": 0,
        "limits.steps": 0,
        "limits.rollouts": 0,
        "limits.seconds": 0,
        "replay.durability": "nosync",
        "bus.bind": "",
        "bus.keys": "",
        **others,
    }
    written = [f"{setting}={json.dumps(value, ensure_ascii=False)}" for setting, value in own.items()]
    config = load(base, (*written, *overrides))
    if config.model.path != str(model):
        raise ConfigError("--set model.path: give the model as the argument RUN|MODEL instead")
    return config


@asynccontextmanager
async def publish_policy(run: RunDir, config: Config, policy: PinnedPolicy) -> AsyncIterator[None]:
    """Publish the policy to the run's engines, and serve its weights during the block."""
    from learner.broadcast import broadcast
    from replay.client import ReplayClient

    assert policy.folder is not None
    orders = launches.make_learner_launch(run, config)
    async with broadcast(orders.bind, policy.folder.parent, config) as address:
        hello = Hello(PROTOCOL_VERSION, compute_digest(config), "learner", orders.name, os.getpid(), address or "")
        async with connect(run.replay_address, hello, bus=config.bus) as publisher:
            await ReplayClient(publisher, config.bus.call_deadline_s).publish(
                0, policy.digest, str(policy.folder), StepMetrics()
            )
            yield


def delete_run(run: RunDir) -> None:
    """Delete the directory of a run without processes. Delete its parent folder too, if it is empty then."""
    run.discard_temporary_sockets()
    with suppress(FileNotFoundError):
        rmtree(run.path)
    with suppress(OSError):
        run.path.parent.rmdir()
