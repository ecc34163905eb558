"""The settings that may leave the machine: in the README files of exports, in the records of pools, in trackers."""

from typing import Any

import msgspec

from spade.config.paths import SETTINGS as PATH_SETTINGS
from spade.config.paths import hide_folders
from spade.config.sections import Config

_SECTIONS = (
    "run", "model", "design", "pool", "play", "tools", "reward", "loss", "learner", "evaluation", "sandbox", "audit",
)  # fmt: skip
"""Sections that say what was trained. The other sections say where and how fast the run works. They may hold
secrets."""
_ADDRESSES = ("sandbox.servers",)


def list_published_settings(config: Config) -> dict[str, Any]:
    """Return the settings that say what was trained, by "section.field". Paths are cut to their last name."""
    found = {
        f"{section}.{name}": value
        for section, each in msgspec.to_builtins(config).items()
        for name, value in each.items()
        if section in _SECTIONS
    }
    return {
        setting: hide_folders(value) if setting in PATH_SETTINGS else value
        for setting, value in found.items()
        if setting not in _ADDRESSES
    }


def describe_author(config: Config) -> str:
    """Describe the model that writes the programs of a run, without folders and addresses."""
    if not config.endpoint.serves("designer"):
        return f"a policy that began as the model `{hide_folders(config.model.path)}`"
    name = config.endpoint.model
    if not name or "://" in name:  # an address may hold a key
        return "a model behind an endpoint"
    return f"the model `{hide_folders(name)}` behind an endpoint"
