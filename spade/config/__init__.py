"""The one typed configuration of a run: frozen structs, TOML, unknown keys refused with their path.

A recipe in `configs/` states only what differs from the defaults. `load` is the one way in: file, then overrides, then
the bounds of each setting, then the rules across settings.
"""

from spade.config.checks import is_local
from spade.config.engine_kinds import ENGINE_KINDS, EngineKind
from spade.config.loading import MEANING, digest, dump, load, mixtures, recipes
from spade.config.sections import (
    LONGEST_WAIT_S,
    SKILLS,
    Actors,
    Audit,
    Bus,
    Config,
    Design,
    Endpoint,
    Engine,
    Evaluation,
    Learner,
    Loss,
    Model,
    Play,
    Pool,
    Replay,
    Reward,
    Run,
    Sandbox,
    Skill,
    Supervise,
    Tier,
)

__all__ = [
    "ENGINE_KINDS", "LONGEST_WAIT_S", "MEANING", "SKILLS",
    "Actors", "Audit", "Bus", "Config", "Design", "Endpoint", "Engine", "EngineKind", "Evaluation", "Learner", "Loss",
    "Model", "Play", "Pool", "Replay", "Reward", "Run", "Sandbox", "Skill", "Supervise", "Tier",
    "digest", "dump", "is_local", "load", "mixtures", "recipes",
]  # fmt: skip
