"""The settings that may leave the machine: in the card of a published policy, and in trackers."""

from typing import Any

import msgspec

from spade.config.paths import SETTINGS as PATH_SETTINGS
from spade.config.paths import hide_folders
from spade.config.sections import Config

_SECTIONS = (
    "run", "model", "design", "pool", "play", "tools", "reward", "loss", "learner", "evaluation", "sandbox", "audit",
)  # fmt: skip
"""Sections that say what was trained. Other sections say where and how fast, and may hold addresses and keys."""
_ADDRESSES = ("sandbox.servers",)


def list_published_settings(config: Config) -> dict[str, Any]:
    """Return the settings that say what was trained, by "section.field". Each path of a file has only its last name."""
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
