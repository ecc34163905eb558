"""The processes of a run: the module of each role, the number of actors, and the launch of each process."""

import secrets
from collections.abc import Mapping

import msgspec

from spade.app.rundir import RunDir
from spade.config import Bus, Config, Limits
from spade.extras import require
from spade.processes.entry import Launch
from spade.processes.gpus import choose_gpus
from spade.protocol import Role

MODULES: Mapping[Role, str] = {  # services stand before their clients; they are drained in the opposite order
    "tracker": "spade.app.track.process",  # drained after the replay service, because it reads the service's last rows
    "replay": "replay.service.process",
    "engine": "actors.engines.server",
    "endpoint": "actors.engines.foreign.endpoint",
    "env-runner": "actors.environments.runner",
    "learner": "learner.train",
    "designer": "actors.roles.designer",
    "curator": "actors.roles.curator",
    "agent": "actors.roles.agent",
    "evaluator": "actors.roles.evaluator",
    "gateway": "actors.gateway.process",
}
NO_LIMITS = Limits()
SERVERS: frozenset[Role] = frozenset({"engine", "endpoint", "env-runner"})


def count_actors(config: Config) -> dict[Role, int]:
    """Return the number of actors of each role with which a supervisor starts."""
    actors = config.actors
    return {
        "engine": actors.engines_bounds[0],
        "endpoint": 1 if config.endpoint.url else 0,
        "env-runner": actors.runners,
        "agent": actors.agents_bounds[0],
        "designer": actors.designers if config.design.source == "model" else 0,
        "curator": actors.designers if config.design.source == "pool" else 0,
    }


def make_replay_launch(run: RunDir, config: Config, corpus: str, limits: Limits = NO_LIMITS) -> Launch:
    """Return the launch of the replay service. `corpus` is the digest of the run's documents.

    `limits` are the limits of this command.
    """
    orders = _launch(run, config, "replay", "replay", run.replay_address, run.replay_address)
    return msgspec.structs.replace(orders, corpus=corpus, limits=limits, command=secrets.token_hex(8))


def make_learner_launch(run: RunDir, config: Config) -> Launch:
    """Return the launch of the learner, which serves its weights and commands its further ranks."""
    bind = _find_free_port(config.bus) or run.socket("learner")
    return _launch(run, config, "learner", "learner", run.replay_address, bind)


def make_rank_launches(run: RunDir, config: Config) -> list[Launch]:
    """Return the launches of the learner's further ranks."""
    further = range(1, config.learner.processes)
    return [_launch(run, config, f"learner-{rank}", "learner", run.replay_address, index=rank) for rank in further]


def make_evaluator_launch(run: RunDir, config: Config) -> Launch:
    """Return the launch of the evaluator."""
    return _launch(run, config, "evaluator", "evaluator", run.replay_address)


def trackers(run: RunDir, config: Config) -> list[Launch]:
    """Return the launches of the trackers. Raises ConfigError if the package of a tracker is missing."""
    kinds = [choice.kind for choice in config.track.choices]
    for kind in kinds:
        require(kind)
    return [
        _launch(run, config, f"tracker-{kind}", "tracker", run.replay_address, index=index)
        for index, kind in enumerate(kinds)
    ]


def make_gateway_launch(run: RunDir, config: Config, address: str, tag: str) -> Launch:
    """Return the launch of a gateway. `address` is the replay service's address, `tag` the end of its name."""
    return _launch(run, config, f"gateway{tag}", "gateway", address)


def make_actor_launch(run: RunDir, config: Config, address: str, tag: str, role: Role, index: int) -> Launch:
    """Return the launch of an actor. `address` is the replay service's address, `tag` the end of the actor's name.

    `index` counts from 0 within its role.
    """
    name = f"{role}-{index}"
    bind = _find_free_port(config.bus) or run.socket(name) if role in SERVERS else None
    return _launch(run, config, name + tag, role, address, bind, index)


def _find_free_port(bus: Bus) -> str:
    """Return an address with any free port of the host in bus.bind. Returns "" if bus.bind is empty."""
    return bus.bind and f"{bus.bind.rpartition(':')[0]}:*"


def _launch(
    run: RunDir, config: Config, name: str, role: Role, address: str, bind: str | None = None, index: int = 0
) -> Launch:
    gpus = choose_gpus(config, role, index)
    return Launch(name, role, str(run.config_path), str(run.path), address, bind, index, gpus)
