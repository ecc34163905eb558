"""The typed configuration of a run: frozen structs, read from TOML. An unknown key is refused with its path.

A recipe in `configs/` states only the settings that differ from the defaults or from the config that it `extends`.
All configs are read by `load`. It merges the base, the file and the overrides in this order. Then it checks the bounds
of each setting and the rules across settings.
"""

from spade.config.addresses import is_local, is_loopback
from spade.config.domains import DOMAINS, SKILLS, DomainName, Skill
from spade.config.engine_kinds import ENGINE_KINDS, EngineKind
from spade.config.inheritance import list_mixtures, list_recipes, make_short_name, read_merged, read_toml
from spade.config.loading import MEANING, compute_digest, config_of, dump, format_inline, list_differences, load
from spade.config.paths import SETTINGS as PATH_SETTINGS
from spade.config.paths import get_setting, hide_folders, make_paths_absolute, replace_settings
from spade.config.published import list_published_settings
from spade.config.retired import RETIRED
from spade.config.sections import (
    LONGEST_WAIT_S,
    PATIENCE,
    TRACKER_KINDS,
    Actors,
    Audit,
    Bus,
    Config,
    Design,
    Endpoint,
    Engine,
    Evaluation,
    Learner,
    Limits,
    Loss,
    Model,
    Place,
    PlacedRole,
    Play,
    Pool,
    PoolLibrary,
    Replay,
    Reward,
    Run,
    Sandbox,
    Serve,
    Supervise,
    Tier,
    ToolUse,
    Track,
    TrackerKind,
)
from spade.config.suites import ONE_ANSWER, SUITE_TRAITS, Library, ProtocolName, SuiteChoice

__all__ = [
    "DOMAINS",
    "ENGINE_KINDS",
    "LONGEST_WAIT_S",
    "MEANING",
    "ONE_ANSWER",
    "PATH_SETTINGS",
    "PATIENCE",
    "RETIRED",
    "SKILLS",
    "SUITE_TRAITS",
    "TRACKER_KINDS",
    "Actors",
    "Audit",
    "Bus",
    "Config",
    "Design",
    "DomainName",
    "Endpoint",
    "Engine",
    "EngineKind",
    "Evaluation",
    "Learner",
    "Library",
    "Limits",
    "Loss",
    "Model",
    "Place",
    "PlacedRole",
    "Play",
    "Pool",
    "PoolLibrary",
    "ProtocolName",
    "Replay",
    "Reward",
    "Run",
    "Sandbox",
    "Serve",
    "Skill",
    "SuiteChoice",
    "Supervise",
    "Tier",
    "ToolUse",
    "Track",
    "TrackerKind",
    "compute_digest",
    "config_of",
    "dump",
    "format_inline",
    "get_setting",
    "hide_folders",
    "is_local",
    "is_loopback",
    "list_differences",
    "list_mixtures",
    "list_published_settings",
    "list_recipes",
    "load",
    "make_paths_absolute",
    "make_short_name",
    "read_merged",
    "read_toml",
    "replace_settings",
]  # fmt: skip
