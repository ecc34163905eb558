"""Arms: groups of runs that were given the same name or have the same settings. Pure."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

import msgspec

from spade.config import Config, list_differences
from spade.text import as_line

IGNORED = ("limits", "bus", "supervise", "track", "run.seed")
"""Sections and settings that may differ within an arm. They set a run's length, machines, seed and trackers, but do not
change what is trained."""

LONGEST_NAME = 80


class Arm(NamedTuple):
    """A group of runs whose figures are pooled."""

    name: str
    """The name of the arm."""

    members: tuple[int, ...]
    """Indices of the arm's runs among all runs."""


def parse_asked(word: str) -> tuple[str, Path]:
    """Parse a run of the command line: FOLDER, or NAME=FOLDER. Return the name of its arm, or "", and the folder.

    A word that is an existing path is FOLDER, even if it contains "=".
    """
    name, equals, folder = word.partition("=")
    return (name, Path(folder)) if equals and name and not os.path.lexists(word) else ("", Path(word))


def run_names(paths: Sequence[Path]) -> list[str]:
    """Return a unique name for each run: its folder's name, with as many parent folders as needed.

    The paths must be distinct.
    """
    parts = [[part for part in path.parts if part != "/"] or ["/"] for path in paths]
    names = [each[-1] for each in parts]
    for depth in range(2, max(map(len, parts), default=0) + 1):
        twins = {name for name, count in Counter(names).items() if count > 1}
        if not twins:
            break
        names = ["/".join(each[-depth:]) if name in twins else name for each, name in zip(parts, names, strict=True)]
    return names


def group_arms(names: Sequence[str], given: Sequence[str], configs: Sequence[Config | None]) -> list[Arm]:
    """Group runs into arms, in the order of their first runs. Runs with the same given name form an arm.

    Runs without a given name form an arm if their settings are equal. A run with unreadable settings is an arm by
    itself.
    """
    members: dict[object, list[int]] = {}
    for place, (arm, config) in enumerate(zip(given, configs, strict=True)):
        key: object = ("named", arm) if arm else ("alone", place) if config is None else list_arm_settings(config)
        members.setdefault(key, []).append(place)
    found = [Arm(_name(key, [names[place] for place in places]), tuple(places)) for key, places in members.items()]
    return _make_names_unique(found)


def compare_settings(configs: Mapping[str, Config]) -> dict[str, list[object]]:
    """Return the settings that differ between configs, each with its value in every config, in order."""
    each = list(configs.values())
    keys = {key: None for other in each[1:] for key in list_differences(each[0], other) if not _is_ignored(key)}
    trees = [msgspec.to_builtins(config) for config in each]
    return {key: [tree[section][field] for tree in trees] for key in keys for section, field in [key.split(".")]}


def list_arm_settings(config: Config) -> bytes:
    """Return the settings that define an arm: equal for runs that differ only in IGNORED.

    Leaves out settings at their defaults. So old and new runs stay in one arm when a later version adds a setting.
    """
    defaults = msgspec.to_builtins(Config())
    tree = {
        f"{section}.{name}": value
        for section, settings in msgspec.to_builtins(config).items()
        for name, value in settings.items()
        if value != defaults[section][name] and not _is_ignored(f"{section}.{name}")
    }
    return msgspec.json.encode(tree, order="sorted")


def _is_ignored(setting: str) -> bool:
    return setting in IGNORED or setting.partition(".")[0] in IGNORED


def _name(key: object, runs: Sequence[str]) -> str:
    match key:
        case ("named", str(name)):
            return name
    if len(runs) == 1:
        return runs[0]
    stems = {run.rstrip("0123456789-_. ") for run in runs}
    return stems.pop() if len(stems) == 1 and "" not in stems else f"{len(runs)} runs with the settings of {runs[0]}"


def _make_names_unique(found: Sequence[Arm]) -> list[Arm]:
    """Give the arms unique names of bounded length. Equal names are numbered."""
    short = [as_line(arm.name, LONGEST_NAME) for arm in found]
    twins = {name for name, times in Counter(short).items() if times > 1}
    taken = set(short)
    unique = []
    for arm, name in zip(found, short, strict=True):
        if name in twins:
            name = next(numbered for number in count(1) if (numbered := f"{name} {number}") not in taken)
            taken.add(name)
        unique.append(Arm(name, arm.members))
    return unique
